package rdmaperf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// The measurements of memory: register maps and registers an area, and deregister gives it back.
const (
	register   = "register"
	deregister = "deregister"
)

// areas are the sizes of registered memory, in bytes.
var areas = []int{4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20}

// maxAreas bounds how often an area is registered.
const maxAreas = 1000

// memory measures the registration of memory, one area at a time.
func memory(ctx context.Context, o Options, wanted func(name string) bool,
	report func(transport.Measurement) error) (err error) {
	if !wanted(register) && !wanted(deregister) {
		return nil
	}
	device, err := devices.Open(o.Device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	var given []transport.Measurement
	for _, size := range areas {
		var on, off []float64
		for began := time.Now(); len(on) == 0 || time.Since(began) < o.Duration &&
			len(on) < maxAreas; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			start := time.Now()
			region, err := device.Allocate(size, rdma.RemoteRead|rdma.RemoteWrite)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", register, size, err)
			}
			registered := time.Now()
			if err := region.Close(); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", deregister, size, err)
			}
			on, off = append(on, float64(registered.Sub(start))),
				append(off, float64(time.Since(registered)))
		}
		given = append(given, area(deregister, size, off))
		if !wanted(register) {
			continue
		}
		if err := report(area(register, size, on)); err != nil {
			return err
		}
	}
	for _, r := range given {
		if !wanted(deregister) {
			break
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// area returns the reading of times in nanoseconds, which it sorts.
func area(name string, size int, times []float64) transport.Measurement {
	slices.Sort(times)
	n := len(times)
	median := (times[(n-1)/2] + times[n/2]) / 2
	return transport.Measurement{Name: name, Size: size, Samples: n,
		Latency: median, LatencyP99: times[(n-1)*99/100],
		Bandwidth: float64(size) / median * float64(time.Second)}
}
