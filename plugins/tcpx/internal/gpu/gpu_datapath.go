package gpu

import "transportbench/plugins/tcpx/internal/cuda"

// Block returns the descriptors of a request (0 to Requests-1) for the caller to fill. The GPU
// uses them from Submit until Done returns true.
func (u *Unpacker) Block(i int) []cuda.Descriptor { return u.requests[i].descriptors }

// Submit starts to unpack the first count descriptors of a request into size bytes of GPU
// memory at an address. Their bounce memory is in use until Done returns true. Submit does not
// block or allocate. It sends to a channel, which wakes the launcher's thread if that sleeps.
//
// It returns ErrBusy or ErrDescriptor if it submits nothing, or an earlier error of the device.
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
	default: // a fault reuses requests that the launcher still has
		r.state.Store(idle)
		return ErrBusy
	}
}

// Done reports whether a submitted request is unpacked. If so, its bounce memory is free and
// the request can be submitted again. Done does not call the driver.
func (u *Unpacker) Done(i int) (bool, error) {
	if failure := u.failure.Load(); failure != nil {
		return false, *failure
	}
	// Pairs with the launcher's store, which comes after the GPU's writes.
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
