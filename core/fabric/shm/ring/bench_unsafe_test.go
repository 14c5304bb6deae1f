package ring_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// BenchmarkRoundTrip echoes 32 bytes through two rings between two pinned threads. It
// reports the time per message as a ratio to the floor, the bounce of a cache line between
// the same two cores before and after.
func BenchmarkRoundTrip(b *testing.B) {
	for _, name := range ring.Algorithms() {
		for _, depth := range []int{1, 8, 32, 128} {
			b.Run(fmt.Sprintf("ring=%s/in-flight=%d", name, depth), func(b *testing.B) {
				a, err := ring.ParseAlgorithm(name)
				if err != nil {
					b.Fatal(err)
				}
				benchmarkRoundTrip(b, a, depth)
			})
		}
	}
}

type pair struct {
	producer ring.Producer
	consumer ring.Consumer
}

func newPair(b *testing.B, a ring.Algorithm) pair {
	g := ring.Geometry{Slots: 128}
	words := make([]uint64, g.Bytes()/8+16)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	memory = memory[-int(uintptr(unsafe.Pointer(&words[0])))&127:]
	p, err := ring.NewProducer(memory, a, g)
	if err != nil {
		b.Fatal(err)
	}
	c, err := ring.NewConsumer(memory, a, g)
	if err != nil {
		b.Fatal(err)
	}
	return pair{p, c}
}

// onCPU runs f on a new thread pinned to one processor.
func onCPU(cpu int, f func()) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the pinned thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			panic(err)
		}
		f()
	}()
	return done
}

func bounce(b *testing.B) float64 {
	var line struct {
		_ [128]byte
		v atomic.Uint64
		_ [128]byte
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var reading transport.Floor
	var err, theirs error
	far := onCPU(1, func() { _, theirs = floor.CacheLine(ctx, &line.v, false, 0) })
	<-onCPU(0, func() { reading, err = floor.CacheLine(ctx, &line.v, true, 5*time.Millisecond) })
	<-far
	if err := errors.Join(err, theirs); err != nil {
		b.Fatal(err)
	}
	return reading.RoundTrip
}

func benchmarkRoundTrip(b *testing.B, a ring.Algorithm, depth int) {
	if runtime.NumCPU() < 2 {
		b.Skip("a ring between two threads needs two processors")
	}
	calls, replies := newPair(b, a), newPair(b, a)
	before := bounce(b)
	var stop atomic.Bool
	var theirs, err error
	server := onCPU(1, func() { theirs = echo(calls.consumer, replies.producer, &stop) })
	b.ResetTimer()
	<-onCPU(0, func() { err = keepInFlight(calls.producer, replies.consumer, depth, b.N, &stop) })
	b.StopTimer()
	stop.Store(true)
	<-server
	if err := errors.Join(err, theirs); err != nil {
		b.Fatal(err)
	}
	after := bounce(b)
	b.ReportMetric((before+after)/2, "floor-ns")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/((before+after)/2), "x-floor")
}

// echo answers every call until it is stopped. It ends with stop set.
func echo(calls ring.Consumer, replies ring.Producer, stop *atomic.Bool) error {
	defer stop.Store(true)
	var m ring.Message
	for !stop.Load() {
		for {
			ok, err := calls.Pop(&m)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			for err = ring.ErrFull; err == ring.ErrFull && !stop.Load(); {
				if err = replies.Push(ring.KindB, m.Token, m.Payload); err == ring.ErrFull {
					replies.Publish()
				}
			}
			if err != nil && err != ring.ErrFull {
				return err
			}
		}
		replies.Publish()
		calls.Release()
	}
	return nil
}

// keepInFlight makes count calls, up to depth in flight. A call that finds the ring full is not in
// flight.
func keepInFlight(calls ring.Producer, replies ring.Consumer, depth, count int,
	stop *atomic.Bool) error {
	payload := make([]byte, 32)
	inFlight := 0
	var m ring.Message
	for done := 0; done < count && !stop.Load(); {
		for ; inFlight < depth; inFlight++ {
			if err := calls.Push(ring.KindA, 7, payload); err == ring.ErrFull {
				break
			} else if err != nil {
				return err
			}
		}
		calls.Publish()
		for {
			ok, err := replies.Pop(&m)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			inFlight--
			done++
		}
		replies.Release()
	}
	return nil
}
