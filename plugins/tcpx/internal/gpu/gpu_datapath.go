package gpu

import "transportbench/plugins/tcpx/internal/cuda"

// Block returns the descriptors of a request, 0 to Requests-1, for the caller to fill.
// They are the GPU's from Submit until Done has said true.
func (u *Unpacker) Block(i int) []cuda.Descriptor { return u.requests[i].descriptors }

// Submit has the first count descriptors of a request unpacked into the size bytes of
// the GPU's memory at an address. The bounce memory that they name is in use until Done
// has said true. It does not block or allocate, and hands over through a channel, which
// wakes the launcher's thread where that sleeps.
//
// Errors: ErrBusy, ErrDescriptor (nothing was submitted), or what failed before.
func (u *Unpacker) Submit(i, count int, to cuda.Address, size int) error {
	r := &u.requests[i]
	if failure := u.failure.Load(); failure != nil {
		return *failure
	}
	if r.state.Load() != idle {
		return ErrBusy
	}
	if count > len(r.descriptors) {
		return ErrDescriptor
	}
	room, bounce, bytes := uint64(size), uint64(len(u.bounce)), uint64(0)
	for _, d := range r.descriptors[:count] {
		length := uint64(d.Length)
		bytes += length
		if uint64(d.Source)+length > bounce || length > room || d.Destination > room-length {
			return ErrDescriptor
		}
	}
	if u.config.Mode == None || count == 0 {
		r.state.Store(done)
		return nil
	}
	r.state.Store(submitted)
	select {
	case u.jobs <- job{request: r, count: count, bytes: bytes, destination: to}:
		return nil
	default: // a fault let requests be used again while the launcher has them
		r.state.Store(idle)
		return ErrBusy
	}
}

// Done says whether a request that was submitted is unpacked. When it says true, the
// bounce memory can be used again, and the request submitted. It makes no call of the
// driver.
func (u *Unpacker) Done(i int) (bool, error) {
	if failure := u.failure.Load(); failure != nil {
		return false, *failure
	}
	// Pairs with the launcher's store: what the GPU wrote is there when this says so.
	state := &u.requests[i].state
	switch state.Load() {
	case done:
	case submitted:
		if u.config.Fault != EarlyConsume {
			return false, nil
		}
	default:
		return false, nil
	}
	state.Store(idle)
	return true, nil
}
