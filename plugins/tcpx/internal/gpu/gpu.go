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
	// Requests is how many chunks an unpacker holds at a time.
	Requests = 16
	// streams is how many chunks the GPU may unpack side by side.
	streams = 2
)

// Mode is who moves the pieces of a chunk.
type Mode string

// The modes. With None nothing is moved, to show what unpacking costs.
const (
	Kernel     Mode = "kernel"
	CopyEngine Mode = "copy-engine"
	None       Mode = "none"
)

// Fault is an error that is made on purpose.
type Fault string

// The faults; the zero value is none. FreshStreams makes a stream and an event for each chunk, waits for the
// kernel, and gives them up again. EarlyConsume says of each chunk that it is unpacked
// as soon as it was submitted.
const (
	FreshStreams Fault = "fresh-streams"
	EarlyConsume Fault = "early-consume"
)

// The errors that a caller tells apart, with [errors.Is].
var (
	// ErrBusy: the request is still in use; there is no seventeenth.
	ErrBusy = errors.New("the request's descriptor block is in use")
	// ErrDescriptor: there are more pieces than a block has, or one lies outside of the
	// bounce memory or the destination.
	ErrDescriptor = errors.New("a descriptor points outside of the memory")
	// ErrResources: streams or events were made while chunks were unpacked.
	ErrResources = errors.New("streams or events were made per chunk, which costs more than the unpacking")
)

// Config is what an unpacker is opened with.
type Config struct {
	// Open opens the device. It is called on the unpacker's own thread.
	Open  func() (Device, error)
	Mode  Mode
	Fault Fault
	// Descriptors is the most pieces of a chunk.
	Descriptors int
}

// The states of a request. Submit makes it submitted, the launcher done, and Done idle.
const (
	idle uint32 = iota
	submitted
	done
)

// request is what one chunk on its way has.
type request struct {
	state atomic.Uint32
	event cuda.Event

	memory      []byte // pinned, of the block
	address     cuda.Address
	descriptors []cuda.Descriptor // the same memory
}

// job is what the launcher is asked for: to unpack a request, or to run do.
type job struct {
	do          func()
	request     *request
	count       int    // of descriptors
	bytes       uint64 // of all
	destination cuda.Address
	launched    time.Time
}

// Unpacker moves chunks from bounce memory to a GPU's. Block, Submit and Done are the
// data path, of one goroutine at a time; the others may be called from any, and block.
type Unpacker struct {
	config      Config
	description cuda.Description
	requests    [Requests]request
	jobs        chan job
	finished    sync.WaitGroup
	failure     atomic.Pointer[error]
	counts      counts
	bounce      []byte // what Register was given

	closeOnce sync.Once

	// The launcher's own.
	closing error // of tearDown
	device  Device
	streams []cuda.Stream
	source  cuda.Address         // of bounce
	rings   map[cuda.Address]int // their sizes
}

// Counts is what an unpacker has done. Values only grow.
type Counts struct {
	Chunks      uint64 // unpacked
	Descriptors uint64
	Bytes       uint64
	Launches    uint64 // of the kernel
	Copies      uint64 // of the copy engine
	Streams     uint64 // made
	Events      uint64 // made
	// Unpacking is the time from launch to the event, summed over chunks; it includes
	// how long the event was not asked.
	Unpacking time.Duration
}

type counts struct {
	chunks, descriptors, bytes, launches, copies, streams, events, unpacking atomic.Uint64
}

// Open opens the device and makes all that unpacking needs. It blocks while the driver
// compiles the kernel. The error is the device's.
func Open(config Config) (*Unpacker, error) {
	u := &Unpacker{config: config, jobs: make(chan job, 2*Requests), rings: map[cuda.Address]int{}}
	opened := make(chan error)
	u.finished.Go(func() { u.launcher(opened) })
	if err := <-opened; err != nil {
		u.finished.Wait()
		return nil, err
	}
	return u, nil
}

// Description says which GPU it is.
func (u *Unpacker) Description() cuda.Description { return u.description }

// Register pins the bounce memory and tells the GPU of it. It begins at a page's start
// and is not of Go's heap; the caller owns it, and keeps it until the unpacker is closed.
// It is called once, before the first Submit.
func (u *Unpacker) Register(bounce []byte) error {
	return u.call(func() (err error) {
		if u.source, err = u.device.Register(bounce); err == nil {
			u.bounce = bounce
		}
		return err
	})
}

// AllocateRing takes the GPU's memory, mapped twice in a row: size bytes rounded up to
// whole, as many as the GPU maps in, at an address that has twice as many behind it.
func (u *Unpacker) AllocateRing(size int) (a cuda.Address, whole int, err error) {
	err = u.call(func() (err error) {
		if a, whole, err = u.device.AllocRing(size); err == nil {
			u.rings[a] = whole
		}
		return err
	})
	return a, whole, err
}

// Free gives back what AllocateRing took.
func (u *Unpacker) Free(a cuda.Address) error {
	return u.call(func() error {
		size := u.rings[a]
		delete(u.rings, a)
		return u.device.FreeRing(a, size)
	})
}

// Read copies from the GPU's memory into the caller's, after all that was submitted
// before. It is meant for the time outside of windows, to verify.
func (u *Unpacker) Read(into []byte, from cuda.Address) error {
	return u.call(func() error {
		return errors.Join(u.device.CopyOut(u.streams[0], into, from), u.device.Synchronize(u.streams[0]))
	})
}

// Write copies from the caller's memory into the GPU's, likewise.
func (u *Unpacker) Write(to cuda.Address, from []byte) error {
	return u.call(func() error {
		return errors.Join(u.device.CopyIn(u.streams[0], to, from), u.device.Synchronize(u.streams[0]))
	})
}

// call runs f on the launcher's thread when all streams are empty.
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
	}
}

// Check returns [ErrResources] where more streams or events were made than Open makes.
func (u *Unpacker) Check() error {
	if c := u.Counts(); c.Streams > streams || c.Events > Requests {
		return fmt.Errorf("%w: %d streams and %d events for %d chunks", ErrResources, c.Streams, c.Events, c.Chunks)
	}
	return nil
}

// Close waits for what was submitted, gives everything up and closes the device. It is
// idempotent; no other call is in progress or follows.
func (u *Unpacker) Close() error {
	var err error
	u.closeOnce.Do(func() {
		close(u.jobs)
		u.finished.Wait()
		err = u.closing
	})
	return err
}
