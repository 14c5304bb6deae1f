package shmperf

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// A benchmark takes its readings with run.
type benchmark struct {
	name string
	run  func(*bench) error
}

// Layer is the benchmark of the rings, which are a layer of a transport.
const Layer = "spsc"

var benchmarks = []benchmark{
	{"allocate", (*bench).allocate},
	{"lookup", (*bench).lookup},
	{"transfer", (*bench).transfer},
	{Layer, (*bench).spsc},
	{"mesh", (*bench).mesh},
}

// Names returns the names of the benchmarks in the order in which Run runs them.
func Names() (names []string) {
	for _, b := range benchmarks {
		names = append(names, b.name)
	}
	return names
}

// bench is a run of the benchmarks.
type bench struct {
	Options
	ctx    context.Context
	report func(transport.Measurement) error
	cpus   []int // that the process may run on
	found  bool  // a reading that the user wants
}

// Run runs the benchmarks for which wanted returns true, and calls report after each reading. It
// stops at the first error, and with the cause of ctx when ctx ends.
func Run(ctx context.Context, o Options, wanted func(name string) bool,
	report func(transport.Measurement) error) (err error) {
	b := &bench{Options: o, ctx: ctx, report: report}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("reading affinity: %w", err)
	}
	for cpu := 0; len(b.cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			b.cpus = append(b.cpus, cpu)
		}
	}
	if o.Reading != "" {
		defer func() {
			if err == nil && !b.found {
				err = wrong(transport.OptionReading, "no reading has a name that begins with %q",
					o.Reading)
			}
		}()
	}
	for _, m := range benchmarks {
		if !wanted(m.name) {
			continue
		}
		if err := m.run(b); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// leavesOut reports whether the user does not want a reading of spsc or mesh.
func (b *bench) leavesOut(name string) bool {
	wanted := strings.HasPrefix(name, b.Reading)
	b.found = b.found || wanted
	return !wanted
}

// on runs f on a thread of its own, pinned to a processor.
func on(cpu int, f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- fmt.Errorf("pinning to cpu %d: %w", cpu, err)
			return
		}
		done <- f()
	}()
	return done
}
