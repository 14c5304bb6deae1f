package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// BenchmarkTrip makes calls from one pinned thread to another, and reports the time of a call and
// its ratio to the bounce of a cache line between the same processors: of the slice with the least
// ratio, which other programs and a move of the virtual processors have disturbed least.
func BenchmarkTrip(b *testing.B) {
	for _, size := range []int{48, 64} {
		for _, calls := range []int{1, 32} {
			b.Run(fmt.Sprintf("bytes=%d/calls=%d", size, calls), func(b *testing.B) {
				if runtime.NumCPU() < 2 {
					b.Skip("two threads need two processors")
				}
				best, bounced, ratios := math.Inf(1), 0.0, math.Inf(1)
				client, server := connected(b, func(c *Config) {
					c.InFlight, c.MaxPayload = calls, size
				})
				before := bounce(b)
				for range b.N {
					spent := trips(b, client, server, calls, size)
					after := bounce(b)
					if ratio := spent / max(before, after); ratio < ratios {
						best, bounced, ratios = spent, max(before, after), ratio
					}
					before = after
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(best, "ns/call")
				b.ReportMetric(bounced, "bounce-ns")
				b.ReportMetric(ratios, "x-bounce")
			})
		}
	}
}

// onCPU runs f on a new thread that is pinned to a processor.
func onCPU(cpu int, f func() error) chan error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		done <- errors.Join(unix.SchedSetaffinity(0, &set), f())
	}()
	return done
}

// bounce returns the round trip of a cache line between both processors in nanoseconds.
func bounce(b *testing.B) float64 {
	var line struct {
		_ [128]byte
		v atomic.Uint64
		_ [128]byte
	}
	var reading transport.Floor
	probe := func(initiate bool) func() error {
		return func() error {
			r, err := floor.CacheLine(context.Background(), &line.v, initiate, time.Millisecond)
			if initiate {
				reading = r
			}
			return err
		}
	}
	far, near := onCPU(1, probe(false)), onCPU(0, probe(true))
	require.NoError(b, errors.Join(<-far, <-near))
	return reading.RoundTrip
}

// trips keeps calls in flight and returns the least time of a call in slices of about 4096.
func trips(b *testing.B, client, server *worker, calls, size int) (best float64) {
	const slices, slice = 8, 4096
	var stop atomic.Bool
	echo := onCPU(1, func() error {
		events, replies := make([]transport.Event, 64), make([]transport.Op, 0, 64)
		for looks := 0; !stop.Load(); {
			n, err := server.Poll(events)
			if err != nil {
				return err
			}
			if n == 0 {
				if looks++; looks > 1 {
					spin.Pause()
				}
				continue
			}
			looks, replies = 0, replies[:n]
			for i := range n {
				replies[i] = transport.Op{Kind: transport.OpReply, Peer: events[i].Peer,
					Token: events[i].Token, Payload: events[i].Payload}
			}
			if _, err := server.Post(replies); err != nil {
				return err
			}
			if err := server.Flush(); err != nil {
				return err
			}
		}
		return nil
	})
	call := onCPU(0, func() error {
		events, ops := make([]transport.Event, 64), make([]transport.Op, calls)
		for i := range ops {
			ops[i] = transport.Op{Kind: transport.OpCall, Payload: make([]byte, size)}
		}
		best = math.Inf(1)
		next, looks := calls, 0
		for range slices {
			began, done := time.Now(), 0
			for ; done < slice; done += next {
				if next > 0 {
					if _, err := client.Post(ops[:next]); err != nil {
						return err
					}
					if err := client.Flush(); err != nil {
						return err
					}
				}
				var err error
				if next, err = client.Poll(events); err != nil {
					return err
				}
				if next > 0 {
					looks = 0
				} else if looks++; looks > 1 {
					spin.Pause()
				}
			}
			best = min(best, float64(time.Since(began))/float64(done))
		}
		for left := calls - next; left > 0; left -= next {
			var err error
			if next, err = client.Poll(events); err != nil {
				return err
			}
		}
		return nil
	})
	err := <-call
	stop.Store(true)
	require.NoError(b, errors.Join(err, <-echo))
	return best
}
