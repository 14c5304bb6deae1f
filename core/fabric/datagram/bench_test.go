package datagram_test

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// BenchmarkUDP compares a port with its floor in turn: single round trips, then many of 32 bytes,
// then long datagrams. The metrics are ratios of the best readings.
func BenchmarkUDP(b *testing.B) {
	for name, o := range map[string]datagram.UDPOptions{
		"loopback":         {},
		"ethernet":         {MTU: datagram.UDPEthernetMTU},
		"ethernet-without": {MTU: datagram.UDPEthernetMTU, Offload: datagram.OffloadOff},
	} {
		b.Run(name, func(b *testing.B) { compare(b, udp(o)) })
	}
}

// must panics on an error: a benchmark that ignores one may hang.
func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// echo answers every datagram until stop is set.
func echo(p datagram.Port, to datagram.Remote, count, size int, stop *atomic.Bool) {
	packets := make([]datagram.Packet, 64)
	body := make([]byte, size)
	for !stop.Load() {
		n := must(p.Receive(packets, datagram.Target{}))
		for i := range n {
			for range count {
				for !p.Send(to, packets[i].Data[:16], body[16:]) {
					must(0, p.Flush())
				}
			}
		}
		if n > 0 {
			must(0, p.Flush())
		}
	}
}

// round numbers the requests, so that late answers to abandoned ones do not count.
var round uint32

// ask keeps requests in flight for d and returns answers per second.
func ask(p datagram.Port, to datagram.Remote, inFlight, count int, d time.Duration) float64 {
	packets := make([]datagram.Packet, 64)
	request := make([]byte, 32)
	round++
	binary.NativeEndian.PutUint32(request, round)
	out, answers, got := 0, 0, 0
	start := time.Now()
	heard := start
	for looks := 1; ; looks++ {
		for ; out < inFlight; out++ {
			if !p.Send(to, request, nil) {
				break
			}
		}
		must(0, p.Flush())
		n := must(p.Receive(packets, datagram.Target{}))
		for i := range n {
			if binary.NativeEndian.Uint32(packets[i].Data) == round {
				got++
				if answers++; answers == count {
					answers, out = 0, out-1
				}
			}
		}
		if looks%16 != 0 {
			continue
		}
		now := time.Now()
		if n > 0 {
			heard = now
		} else if now.Sub(heard) > 2*time.Millisecond {
			round++
			binary.NativeEndian.PutUint32(request, round)
			out, answers, heard = 0, 0, now
		}
		if now.Sub(start) > d {
			return float64(got) / now.Sub(start).Seconds()
		}
	}
}

func compare(b *testing.B, open func() (datagram.Port, error)) {
	var x [2]datagram.Port
	for i := range x {
		p, err := open()
		require.NoError(b, err)
		defer p.Close()
		x[i] = p
	}
	to, err := x[0].Open(x[1].Address())
	require.NoError(b, err)
	from, err := x[1].Open(x[0].Address())
	require.NoError(b, err)
	const each = 5 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	during := func(remote, local func()) {
		var wait sync.WaitGroup
		wait.Go(func() { runtime.LockOSThread(); remote() })
		local()
		wait.Wait()
	}
	load := func(inFlight, count, size int) (rate float64) {
		var stop atomic.Bool
		during(func() { echo(x[1], from, count, size, &stop) }, func() {
			rate = ask(x[0], to, inFlight, count, each)
			stop.Store(true)
		})
		return rate
	}
	size := x[0].MTU()
	window := max(1<<20/size, 2)
	floor := func(asked transport.Probe) (f transport.Floor) {
		var theirs error
		asked.Duration = 2 * each
		lead := asked
		lead.Initiate = true
		during(
			func() { _, theirs = x[1].(datagram.Prober).Probe(context.Background(), from, asked) },
			func() { f, err = x[0].(datagram.Prober).Probe(context.Background(), to, lead) })
		require.NoError(b, errors.Join(err, theirs))
		return f
	}
	const small = 32 - transport.ProbeHeader
	count := min(max(window/2, 1), 64)
	var trips, perOp, perLong, one, many, long []float64
	for b.Loop() {
		trips = append(trips, floor(transport.Probe{Kind: transport.ProbeMedium, Forth: small,
			Back: small}).RoundTrip)
		perOp = append(perOp, floor(transport.Probe{Kind: transport.ProbeRate, Forth: small,
			Back: small, InFlight: 64}).PerOp)
		perLong = append(perLong, floor(transport.Probe{Kind: transport.ProbeRate, Forth: small,
			Back: count*size - transport.ProbeHeader, InFlight: max(window/count, 2)}).PerOp)
		one = append(one, 1e9/load(1, 1, 32))
		many = append(many, 1e9/load(64, 1, 32))
		long = append(long, 1e9/load(max(window/count, 2), count, size)*float64(count))
	}
	b.ReportMetric(slices.Min(trips), "floor-ns")
	b.ReportMetric(slices.Min(one)/slices.Min(trips), "round-trip/floor")
	b.ReportMetric(slices.Min(perOp), "rate-floor-ns")
	b.ReportMetric(slices.Min(many)/slices.Min(perOp), "op/rate-floor")
	b.ReportMetric(float64(count*size)/slices.Min(perLong), "floor-GB/s")
	b.ReportMetric(slices.Min(long)/slices.Min(perLong), "long/rate-floor")
	b.ReportMetric(0, "ns/op")
}
