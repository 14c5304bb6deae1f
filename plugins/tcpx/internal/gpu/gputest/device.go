package gputest

import (
	"bytes"
	"encoding/binary"
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

// region is memory that has an address of the GPU's.
type region struct {
	address cuda.Address
	memory  []byte
	pinned  bool // of the host
	written []byte
}

type stream struct {
	work     []func()
	unmarked bool // there is work that no event covers
}

type event struct {
	recorded, ready, asked bool
	stream                 *stream
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

// NewStream makes a stream.
func (d *Device) NewStream() (cuda.Stream, error) {
	err := d.enter("NewStream")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	s := cuda.Stream(d.handle("stream"))
	d.streams[s] = &stream{}
	return s, nil
}

// DestroyStream complains where the stream has work left.
func (d *Device) DestroyStream(s cuda.Stream) error {
	err := d.enter("DestroyStream")
	defer d.mu.Unlock()
	if st := d.streams[s]; st == nil || len(st.work) > 0 && d.broken == nil {
		d.mistake("a stream is given up that does not exist, or has work")
	}
	delete(d.streams, s)
	return err
}

// Synchronize does all work of the stream.
func (d *Device) Synchronize(s cuda.Stream) error {
	err := d.enter("Synchronize")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	st := d.streams[s]
	for _, work := range st.work {
		work()
	}
	st.work = nil
	return d.broken
}

// NewEvent makes an event.
func (d *Device) NewEvent() (cuda.Event, error) {
	err := d.enter("NewEvent")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	e := cuda.Event(d.handle("event"))
	d.events[e] = &event{}
	return e, nil
}

// DestroyEvent gives an event up.
func (d *Device) DestroyEvent(e cuda.Event) error {
	err := d.enter("DestroyEvent")
	defer d.mu.Unlock()
	if d.events[e] == nil {
		d.mistake("an event is given up that does not exist")
	}
	delete(d.events, e)
	return err
}

// Record complains of an event that covers nothing, and of one that is recorded again
// while nobody has seen it ready.
func (d *Device) Record(e cuda.Event, s cuda.Stream) error {
	err := d.enter("Record")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.calls = append(d.calls, "record")
	st, ev := d.streams[s], d.events[e]
	if !st.unmarked {
		d.mistake("an event is recorded behind no work")
	}
	if ev.recorded && !ev.asked {
		d.mistake("an event is recorded again before it was seen ready")
	}
	*ev = event{recorded: true, stream: st}
	st.unmarked = false
	st.work = append(st.work, func() { ev.ready = true })
	return nil
}

// Query does one piece of the stream's work after it has looked whether the event is
// ready.
func (d *Device) Query(e cuda.Event) (bool, error) {
	err := d.enter("Query")
	defer d.mu.Unlock()
	if err != nil {
		return false, err
	}
	ev := d.events[e]
	if !ev.recorded {
		d.mistake("an event is asked that was never recorded")
	}
	if ev.ready {
		ev.asked = true
		d.calls = append(d.calls, "ready")
		return true, nil
	}
	if len(d.calls) == 0 || d.calls[len(d.calls)-1] != "not ready" {
		d.calls = append(d.calls, "not ready")
	}
	if st := ev.stream; !d.held && len(st.work) > 0 {
		st.work[0]()
		st.work = st.work[1:]
	}
	return false, d.broken
}

func (d *Device) add(memory []byte, pinned bool) cuda.Address {
	at := d.next
	// Nothing lies behind a region, so that what runs over its end is found out.
	d.next += cuda.Address(len(memory)+2*4096) &^ 4095
	d.regions = append(d.regions, region{address: at, memory: memory, pinned: pinned, written: make([]byte, len(memory))})
	return at
}

func (d *Device) remove(which func(region) bool) {
	before := len(d.regions)
	if d.regions = slices.DeleteFunc(d.regions, which); len(d.regions) != before-1 {
		d.mistake("memory is given up that is not there")
	}
}

func same(memory []byte) func(region) bool {
	return func(r region) bool { return r.pinned && len(memory) > 0 && &r.memory[0] == &memory[0] }
}

// Register gives host memory an address.
func (d *Device) Register(memory []byte) (cuda.Address, error) {
	err := d.enter("Register")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return d.add(memory, true), nil
}

// Unregister takes it away.
func (d *Device) Unregister(memory []byte) error {
	err := d.enter("Unregister")
	defer d.mu.Unlock()
	d.remove(same(memory))
	return err
}

// HostAlloc makes host memory with an address.
func (d *Device) HostAlloc(size int) ([]byte, cuda.Address, error) {
	err := d.enter("HostAlloc")
	defer d.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	d.made["host"]++
	memory := aligned(size)
	return memory, d.add(memory, true), nil
}

// HostFree gives it up.
func (d *Device) HostFree(memory []byte) error {
	err := d.enter("HostFree")
	defer d.mu.Unlock()
	d.remove(same(memory))
	return err
}

// ringUnit is what the device maps memory in.
const ringUnit = 64 << 10

// AllocRing makes memory of the device. Its second half is kept the same as the first.
func (d *Device) AllocRing(size int) (cuda.Address, int, error) {
	err := d.enter("AllocRing")
	defer d.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	d.made["memory"]++
	whole := (size + ringUnit - 1) / ringUnit * ringUnit
	return d.add(make([]byte, 2*whole), false), whole, nil
}

// FreeRing gives it up.
func (d *Device) FreeRing(a cuda.Address, size int) error {
	err := d.enter("FreeRing")
	defer d.mu.Unlock()
	d.remove(func(r region) bool { return !r.pinned && r.address == a && len(r.memory) == 2*size })
	return err
}

// mirror copies what was written to one half of a ring to the other.
func (r *region) mirror(at, n int) {
	half := len(r.memory) / 2
	if first := min(at+n, half); at < first {
		copy(r.memory[at+half:], r.memory[at:first])
	}
	if second := max(at, half); second < at+n {
		copy(r.memory[second-half:], r.memory[second:at+n])
	}
}

// CopyIn copies later.
func (d *Device) CopyIn(s cuda.Stream, to cuda.Address, from []byte) error {
	err := d.enter("CopyIn")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "copy", func() {
		if r, at := d.find(to, len(from)); r != nil {
			copy(r.memory[at:], from)
			r.mirror(at, len(from))
		}
	})
	return nil
}

// CopyOut copies later.
func (d *Device) CopyOut(s cuda.Stream, to []byte, from cuda.Address) error {
	err := d.enter("CopyOut")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "copy", func() {
		if r, at := d.find(from, len(to)); r != nil {
			copy(to, r.memory[at:])
		}
	})
	return nil
}

// Launch runs the kernel later: it reads the descriptors then, as a GPU does.
func (d *Device) Launch(s cuda.Stream, block cuda.Address, count int, source, destination cuda.Address) error {
	err := d.enter("Launch")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "launch", func() { d.run(block, count, source, destination) })
	return nil
}

func (d *Device) queue(s cuda.Stream, call string, work func()) {
	if len(d.calls) == 0 || call != "copy" || d.calls[len(d.calls)-1] != call {
		d.calls = append(d.calls, call)
	}
	st := d.streams[s]
	st.work, st.unmarked = append(st.work, work), true
}

// find returns the region that has n bytes at an address; without one the device breaks.
func (d *Device) find(a cuda.Address, n int) (*region, int) {
	for i := range d.regions {
		if r := &d.regions[i]; a >= r.address && a+cuda.Address(n) <= r.address+cuda.Address(len(r.memory)) {
			return r, int(a - r.address)
		}
	}
	d.broken = &cuda.Error{Call: "kernel", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Text: fmt.Sprintf("%d bytes at %#x", n, uint64(a))}
	return nil, 0
}

func (d *Device) run(block cuda.Address, count int, source, destination cuda.Address) {
	r, at := d.find(block, count*cuda.DescriptorSize)
	if r == nil {
		return
	}
	descriptors := make([]cuda.Descriptor, count)
	if err := binary.Read(bytes.NewReader(r.memory[at:]), binary.LittleEndian, descriptors); err != nil {
		panic(err) // Descriptor has fixed-size fields
	}
	for _, piece := range descriptors {
		d.unpack(source+cuda.Address(piece.Source), destination+cuda.Address(piece.Destination), piece.Length)
	}
	for _, piece := range descriptors { // each launch may write a byte once
		if r, at := d.find(destination+cuda.Address(piece.Destination), int(piece.Length)); r != nil {
			clear(r.written[at : at+int(piece.Length)])
		}
	}
}

func (d *Device) unpack(from, to cuda.Address, length uint32) {
	input, i := d.find(from, int(length))
	output, o := d.find(to, int(length))
	if input == nil || output == nil {
		return
	}
	source, destination, written := input.memory[i:], output.memory[o:], output.written[o:]
	Kernel(from, to, length, func(at, n uint32) {
		if (from|to|cuda.Address(at))%cuda.Address(n) != 0 {
			d.broken = &cuda.Error{Call: "kernel", Code: 716, Name: "CUDA_ERROR_MISALIGNED_ADDRESS", Text: "misaligned address"}
		}
		for k := at; k < at+n; k++ {
			destination[k] = source[k]
			written[k]++
		}
	})
	output.mirror(o, int(length))
	for k, times := range written[:length] {
		if times != 1 {
			d.mistake("byte %d of a piece is written %d times", k, times)
		}
	}
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
