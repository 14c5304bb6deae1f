package gpu

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/plugins/tcpx/internal/cuda"
)

const (
	// Requests is the number of chunks that an unpacker can have in progress.
	Requests = 16
	// streams is the number of chunks that the GPU may unpack concurrently.
	streams = 2
)

// Mode is how the pieces of a chunk are moved.
type Mode string

// The modes. None moves nothing, to show the cost of unpacking.
const (
	Kernel     Mode = "kernel"
	CopyEngine Mode = "copy-engine"
	None       Mode = "none"
)

// Fault is a deliberate error.
type Fault string

// The faults; the zero value means none. FreshStreams makes a stream and an event for each
// chunk, waits for the kernel, and destroys them. EarlyConsume reports each chunk as unpacked as
// soon as it is submitted, and EarlySend reports each copy to the host so.
const (
	FreshStreams Fault = "fresh-streams"
	EarlyConsume Fault = "early-consume"
	EarlySend    Fault = "early-send"
)

// The errors of an unpacker, for [errors.Is].
var (
	// ErrBusy means that the request is still in use.
	ErrBusy = errors.New("the request's descriptor block is in use")
	// ErrDescriptor means that there are more pieces than a block holds, or that one is
	// outside the bounce memory or the destination.
	ErrDescriptor = errors.New("a descriptor points outside of the memory")
	// ErrResources means that streams or events were made for chunks.
	ErrResources = errors.New(
		"streams or events were made per chunk, which costs more than the unpacking")
)

// Config is the argument of [Open].
type Config struct {
	// Open opens the device, on the unpacker's thread.
	Open  func() (Device, error)
	Mode  Mode
	Fault Fault
	// Descriptors is the limit of pieces per chunk.
	Descriptors int
	// Sends adds a stream and events for CopyOut.
	Sends bool
}

// The states of a request: Submit sets submitted, the launcher sets done, and Done sets idle.
const (
	idle uint32 = iota
	submitted
	done
)

// request has the resources of one chunk in progress.
type request struct {
	state atomic.Uint32
	event cuda.Event

	memory      []byte // of the descriptors, pinned
	address     cuda.Address
	descriptors []cuda.Descriptor // the same memory
}

// job is work for the launcher: a request to unpack, a copy to the host, or a function to call.
type job struct {
	do          func()
	out         []byte // destination of a copy to the host
	from        cuda.Address
	request     *request
	count       int    // of descriptors
	bytes       uint64 // of all descriptors
	destination cuda.Address
	launched    time.Time
}

// Unpacker moves chunks from bounce memory to GPU memory. Block, Submit and Done are the data
// path, for one goroutine at a time. Any goroutine may call the other methods, which block.
type Unpacker struct {
	config      Config
	description cuda.Description
	requests    [Requests]request
	jobs        chan job
	finished    sync.WaitGroup
	failure     atomic.Pointer[error]
	counts      counts
	bounce      []byte // argument of Register
	exported    int    // bytes of bounce that are in GPU memory
	copies      copies

	closeOnce sync.Once

	// Used by the launcher only.
	closing error // of tearDown
	device  Device
	streams []cuda.Stream
	source  cuda.Address         // of bounce
	pages   []cuda.Address       // of allocatePages
	rings   map[cuda.Address]int // their sizes
}

// Counts are the counters of an unpacker. They only grow.
type Counts struct {
	Chunks      uint64 // unpacked
	Descriptors uint64
	Bytes       uint64
	Launches    uint64 // of the kernel
	Copies      uint64 // of the copy engine
	Streams     uint64 // made
	Events      uint64 // made
	// Unpacking is the time from launch until the launcher saw the event, summed over
	// chunks.
	Unpacking time.Duration
	// Sends are copies to the host, SendBytes their bytes, and Sending their time from launch until
	// the launcher saw the event, summed.
	Sends     uint64
	SendBytes uint64
	Sending   time.Duration
}

type counts struct {
	chunks, descriptors, bytes, launches, copies, streams, events, unpacking atomic.Uint64
	sends, sendBytes, sending                                                atomic.Uint64
}

// Open opens the device and makes all resources. It blocks while the driver compiles the
// kernel. The error is the device's.
func Open(config Config) (*Unpacker, error) {
	u := &Unpacker{config: config, jobs: make(chan job, 3*Requests), rings: map[cuda.Address]int{}}
	opened := make(chan error)
	u.finished.Go(func() { u.launcher(opened) })
	if err := <-opened; err != nil {
		u.finished.Wait()
		return nil, err
	}
	return u, nil
}

// Description returns the GPU and its driver.
func (u *Unpacker) Description() cuda.Description { return u.description }

// Register pins the bounce memory and maps it for the GPU. The memory is page aligned and not
// on Go's heap. The caller owns it and keeps it until the unpacker is closed. Call Register
// once, before the first Submit.
func (u *Unpacker) Register(bounce []byte) error {
	return u.call(func() error {
		address, err := u.device.Register(bounce)
		if err == nil {
			u.bounce = bounce
			if u.exported == 0 {
				u.source = address
			}
		}
		return err
	})
}

// AllocateRing allocates GPU memory that is mapped twice in a row. whole is size rounded up to
// the GPU's mapping granularity; the mapping at a is twice as long.
func (u *Unpacker) AllocateRing(size int) (a cuda.Address, whole int, err error) {
	err = u.call(func() (err error) {
		if a, whole, err = u.device.AllocRing(size); err == nil {
			u.rings[a] = whole
		}
		return err
	})
	return a, whole, err
}

// Free frees memory of AllocateRing.
func (u *Unpacker) Free(a cuda.Address) error {
	return u.call(func() error {
		size := u.rings[a]
		delete(u.rings, a)
		return u.device.FreeRing(a, size)
	})
}

// Read copies from GPU memory after all earlier submissions. It is for verification outside
// measured windows.
func (u *Unpacker) Read(into []byte, from cuda.Address) error {
	return u.call(func() error {
		return errors.Join(u.device.CopyOut(u.streams[0], into, from),
			u.device.Synchronize(u.streams[0]))
	})
}

// Write copies to GPU memory after all earlier submissions.
func (u *Unpacker) Write(to cuda.Address, from []byte) error {
	return u.call(func() error {
		return errors.Join(u.device.CopyIn(u.streams[0], to, from),
			u.device.Synchronize(u.streams[0]))
	})
}

// call runs f on the launcher's thread once all streams are empty.
func (u *Unpacker) call(f func() error) error {
	answer := make(chan error, 1)
	u.jobs <- job{do: func() {
		for _, s := range u.streams {
			if err := u.device.Synchronize(s); err != nil {
				answer <- err
				return
			}
		}
		answer <- f()
	}}
	return <-answer
}

// Counts returns the counters.
func (u *Unpacker) Counts() Counts {
	c := &u.counts
	return Counts{
		Chunks: c.chunks.Load(), Descriptors: c.descriptors.Load(), Bytes: c.bytes.Load(),
		Launches: c.launches.Load(), Copies: c.copies.Load(),
		Streams: c.streams.Load(), Events: c.events.Load(),
		Unpacking: time.Duration(c.unpacking.Load()),
		Sends:     c.sends.Load(), SendBytes: c.sendBytes.Load(),
		Sending: time.Duration(c.sending.Load()),
	}
}

// resources returns how many streams and events Open makes.
func (u *Unpacker) resources() (streamCount, events int) {
	if u.config.Sends {
		return streams + 1, 2 * Requests
	}
	return streams, Requests
}

// Check returns [ErrResources] if more streams or events were made than Open makes.
func (u *Unpacker) Check() error {
	streamCount, events := u.resources()
	if c := u.Counts(); c.Streams > uint64(streamCount) || c.Events > uint64(events) {
		return fmt.Errorf("%w: %d streams and %d events for %d chunks", ErrResources, c.Streams,
			c.Events, c.Chunks)
	}
	return nil
}

// Close waits for submitted chunks, frees all resources and closes the device. It is
// idempotent. No other method may run at the same time or later.
func (u *Unpacker) Close() error {
	var err error
	u.closeOnce.Do(func() {
		close(u.jobs)
		u.finished.Wait()
		err = u.closing
	})
	return err
}
