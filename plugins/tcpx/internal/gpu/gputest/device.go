package gputest

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/cuda"
)

// Device is the GPU of tests. Its zero value is ready to be opened. The calls of a GPU
// come from one thread, and it complains where they do not; the others may come from any.
type Device struct {
	mu       sync.Mutex
	thread   int
	held     bool
	failing  string // the call that fails
	broken   error  // every call's answer from now on, as CUDA has it
	regions  []region
	next     cuda.Address
	streams  map[cuda.Stream]*stream
	events   map[cuda.Event]*event
	handles  uintptr
	calls    []string
	made     map[string]int
	mistakes []string
}

// Open makes the calling thread the device's.
func (d *Device) Open() (*Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thread, d.next = unix.Gettid(), 1<<40
	d.streams, d.events, d.made = map[cuda.Stream]*stream{}, map[cuda.Event]*event{}, map[string]int{}
	if d.failing == "Open" {
		return nil, fmt.Errorf("fails on purpose: %s", d.failing)
	}
	return d, nil
}

// Hold keeps the device from doing any work until it is called with false. Synchronize
// does not wait for that.
func (d *Device) Hold(hold bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = hold
}

// Fail has the calls of this name fail.
func (d *Device) Fail(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = call
}

// Calls returns the launches, copies, records and queries so far, in order; several
// copies behind each other are one, and so are several queries that were not ready.
func (d *Device) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Made returns how many things of a kind were made: "stream", "event", "host", "memory".
func (d *Device) Made(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[kind]
}

// Mistakes returns what was done that a GPU would not forgive.
func (d *Device) Mistakes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mistakes)
}

// enter begins a call: it locks the device and returns the call's error.
func (d *Device) enter(call string) error {
	d.mu.Lock()
	if d.thread != unix.Gettid() {
		d.mistake("%s on another thread than the one that opened the device", call)
	}
	if d.failing == call {
		return fmt.Errorf("fails on purpose: %s", call)
	}
	return d.broken
}

func (d *Device) mistake(format string, args ...any) {
	d.mistakes = append(d.mistakes, fmt.Sprintf(format, args...))
}

// Description implements the unpacker's device, as all below.
func (d *Device) Description() cuda.Description {
	return cuda.Description{Device: "GPU of tests", Driver: "0.0"}
}

func (d *Device) handle(kind string) uintptr {
	d.handles++
	d.made[kind]++
	return d.handles
}

// Close complains of what was not given up.
func (d *Device) Close() error {
	err := d.enter("Close")
	defer d.mu.Unlock()
	if len(d.streams)+len(d.events)+len(d.regions) > 0 {
		d.mistake("the device is closed with %d streams, %d events and %d pieces of memory", len(d.streams), len(d.events), len(d.regions))
	}
	return err
}
