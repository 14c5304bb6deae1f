package gputest

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/cuda"
)

// Device is a fake GPU. Its zero value is ready to be opened. It reports calls of the GPU
// interface that come from a second thread; any thread may call the other methods.
type Device struct {
	mu       sync.Mutex
	thread   int
	held     bool
	failing  string // name of the call that fails
	broken   error  // result of every further call, as in CUDA
	regions  []region
	next     cuda.Address
	streams  map[cuda.Stream]*stream
	events   map[cuda.Event]*event
	handles  uintptr
	calls    []string
	made     map[string]int
	mistakes []string
}

// Open binds the device to the calling thread.
func (d *Device) Open() (*Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.thread, d.next = unix.Gettid(), 1<<40
	d.streams, d.events, d.made = map[cuda.Stream]*stream{}, map[cuda.Event]*event{},
		map[string]int{}
	if d.failing == "Open" {
		return nil, fmt.Errorf("fails deliberately: %s", d.failing)
	}
	return d, nil
}

// Hold stops all work of the device until it is called with false. Synchronize ignores it.
func (d *Device) Hold(hold bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = hold
}

// Fail makes calls with this name fail.
func (d *Device) Fail(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = call
}

// Calls returns the launches, copies, records and queries so far, in order. Consecutive copies
// count as one, and so do consecutive queries that were not ready.
func (d *Device) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Made returns how many objects of a kind were made: "stream", "event", "host", "memory".
func (d *Device) Made(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[kind]
}

// Mistakes returns the calls that are wrong on a GPU.
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
		return fmt.Errorf("fails deliberately: %s", call)
	}
	return d.broken
}

func (d *Device) mistake(format string, args ...any) {
	d.mistakes = append(d.mistakes, fmt.Sprintf(format, args...))
}

// Description and the methods below implement the interface of the unpacker.
func (d *Device) Description() cuda.Description {
	return cuda.Description{Device: "GPU of tests", Driver: "0.0"}
}

func (d *Device) handle(kind string) uintptr {
	d.handles++
	d.made[kind]++
	return d.handles
}

// Close reports objects that were not freed.
func (d *Device) Close() error {
	err := d.enter("Close")
	defer d.mu.Unlock()
	if len(d.streams)+len(d.events)+len(d.regions) > 0 {
		d.mistake("the device is closed with %d streams, %d events and %d pieces of memory",
			len(d.streams), len(d.events), len(d.regions))
	}
	return err
}
