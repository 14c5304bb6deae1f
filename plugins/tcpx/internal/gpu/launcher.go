package gpu

import (
	"errors"
	"runtime"
	"time"

	"transportbench/core/fabric/queue"
	"transportbench/plugins/tcpx/internal/cuda"
)

// launcher is the goroutine that drives the device. It sends the result of opening it to opened,
// and ends when jobs is closed.
func (u *Unpacker) launcher(opened chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	device, err := u.config.Open()
	if err != nil {
		opened <- err
		return
	}
	u.device = device
	if err := u.setUp(); err != nil {
		opened <- errors.Join(err, u.tearDown())
		return
	}
	opened <- nil
	u.serve()
	u.closing = u.tearDown()
}

func (u *Unpacker) setUp() error {
	u.description = u.device.Description()
	var err error
	streamCount, _ := u.resources()
	for range streamCount {
		s, err := u.device.NewStream()
		if err != nil {
			return err
		}
		u.counts.streams.Add(1)
		u.streams = append(u.streams, s)
	}
	for i := range u.requests {
		r := &u.requests[i]
		if r.event, err = u.device.NewEvent(); err != nil {
			return err
		}
		u.counts.events.Add(1)
		if r.memory, r.address, err = u.device.HostAlloc(
			u.config.Descriptors * cuda.DescriptorSize); err != nil {
			return err
		}
		r.descriptors = descriptors(r.memory)
	}
	if !u.config.Sends {
		return nil
	}
	for i := range u.copies.events {
		if u.copies.events[i], err = u.device.NewEvent(); err != nil {
			return err
		}
		u.counts.events.Add(1)
	}
	return nil
}

// tearDown frees what setUp made, in reverse, even if setUp failed halfway.
func (u *Unpacker) tearDown() error {
	var errs []error
	for _, s := range u.streams {
		errs = append(errs, u.device.Synchronize(s))
	}
	for a, size := range u.rings {
		errs = append(errs, u.device.FreeRing(a, size))
	}
	if u.bounce != nil {
		errs = append(errs, u.device.Unregister(u.bounce))
	}
	for _, a := range u.pages {
		errs = append(errs, u.device.Free(a))
	}
	for i := range u.requests {
		r := &u.requests[i]
		if r.memory != nil {
			r.descriptors = nil
			errs = append(errs, u.device.HostFree(r.memory))
		}
		if r.event != 0 {
			errs = append(errs, u.device.DestroyEvent(r.event))
		}
	}
	for _, e := range u.copies.events {
		if e != 0 {
			errs = append(errs, u.device.DestroyEvent(e))
		}
	}
	for _, s := range u.streams {
		errs = append(errs, u.device.DestroyStream(s))
	}
	return errors.Join(append(errs, u.device.Close())...)
}

// serve launches submitted jobs and queries the events of launched ones. It sleeps only if no
// job is in progress.
func (u *Unpacker) serve() {
	var queues [streams]queue.Queue[job] // the jobs of each stream in launch order
	for i := range queues {
		queues[i] = queue.New[job](Requests)
	}
	inProgress, next := 0, 0
	for {
		var j job
		open := true
		switch {
		case inProgress == 0 && u.copies.idle():
			j, open = <-u.jobs
		case inProgress < Requests:
			select {
			case j, open = <-u.jobs:
			default:
			}
		}
		switch {
		case !open:
			return // tearDown waits for the streams
		case j.do != nil:
			j.do()
		case j.out != nil:
			u.launchCopy(&j)
		case j.request != nil:
			if u.launch(&j, u.streams[next]) {
				*queues[next].Push() = j
				inProgress++
			}
			next = (next + 1) % streams
		}
		finished := u.query(&queues)
		inProgress -= finished
		copied := u.queryCopies()
		if inProgress > 0 && finished == 0 && j.request == nil || !copied && !u.copies.idle() &&
			j.out == nil {
			runtime.Gosched()
		}
	}
}

// launch starts a job and reports whether there is an event to wait for. The event is recorded
// last in the stream, so that it covers the whole chunk.
func (u *Unpacker) launch(j *job, stream cuda.Stream) bool {
	j.launched = time.Now()
	if u.config.Fault == FreshStreams {
		u.fail(u.launchAlone(j))
		u.finish(j)
		return false
	}
	return !u.fail(u.start(j, stream)) && !u.fail(u.device.Record(j.request.event, stream))
}

func (u *Unpacker) start(j *job, stream cuda.Stream) error {
	if u.config.Mode == Kernel {
		if u.exported > 0 {
			if err := u.complete(j.request.descriptors[:j.count], stream); err != nil {
				return err
			}
		}
		u.counts.launches.Add(1)
		return u.device.Launch(stream, j.request.address, j.count, u.source, j.destination)
	}
	for _, d := range j.request.descriptors[:j.count] {
		if d.Length == 0 {
			continue
		}
		u.counts.copies.Add(1)
		from := u.bounce[d.Source : uint64(d.Source)+uint64(d.Length)]
		if err := u.device.CopyIn(stream, j.destination+cuda.Address(d.Destination),
			from); err != nil {
			return err
		}
	}
	return nil
}

// launchAlone is the fault FreshStreams: it makes everything for one chunk, and waits.
func (u *Unpacker) launchAlone(j *job) error {
	stream, err := u.device.NewStream()
	if err != nil {
		return err
	}
	u.counts.streams.Add(1)
	event, err := u.device.NewEvent()
	if err != nil {
		return errors.Join(err, u.device.DestroyStream(stream))
	}
	u.counts.events.Add(1)
	return errors.Join(u.start(j, stream), u.device.Record(event, stream),
		u.device.Synchronize(stream),
		u.device.DestroyEvent(event), u.device.DestroyStream(stream))
}

// query queries the events of each stream, oldest first, until one is not ready. It returns how
// many were ready.
func (u *Unpacker) query(queues *[streams]queue.Queue[job]) (finished int) {
	for i := range queues {
		q := &queues[i]
		for !q.Empty() {
			j := q.Head()
			ready, err := u.device.Query(j.request.event)
			if !u.fail(err) && !ready {
				break
			}
			u.finish(j)
			q.Pop()
			finished++
		}
	}
	return finished
}

// finish counts a chunk and marks its request done.
func (u *Unpacker) finish(j *job) {
	c := &u.counts
	c.chunks.Add(1)
	c.descriptors.Add(uint64(j.count))
	c.bytes.Add(j.bytes)
	c.unpacking.Add(uint64(time.Since(j.launched)))
	// Pairs with the load in Done.
	j.request.state.Store(done)
}

// fail keeps the first error, which the data path then returns from every call, because a CUDA
// context returns it from every call as well. It reports whether err is an error.
func (u *Unpacker) fail(err error) bool {
	if err == nil {
		return false
	}
	kept := err // so that err does not escape to the heap
	u.failure.CompareAndSwap(nil, &kept)
	return true
}
