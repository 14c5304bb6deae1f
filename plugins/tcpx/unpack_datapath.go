package tcpx

// launch implements [unpacker].
func (u *hostUnpacker) launch(slot int, descriptors []descriptor, to buffer) error {
	s := &u.slots[slot]
	if len(u.copier) == 0 {
		unpack(to.host, u.bounce, descriptors)
		s.state.Store(slotDone)
		return nil
	}
	s.descriptors, s.to = descriptors, to.host
	s.state.Store(slotLaunched) // pairs with the load in look
	if c := u.copier[slot%len(u.copier)]; c.asleep.Load() {
		c.ring()
	}
	return nil
}

// done implements [unpacker].
func (u *hostUnpacker) done(slot int) (bool, error) {
	s := &u.slots[slot]
	if s.state.Load() != slotDone { // pairs with the store in look
		return false, nil
	}
	s.state.Store(slotFree)
	return true, nil
}

// unpack copies fragments to where they belong.
func unpack(to, bounce []byte, descriptors []descriptor) {
	for i := range descriptors {
		d := &descriptors[i]
		copy(to[d.destination:d.destination+uint64(d.length)], bounce[d.source:d.source+d.length])
	}
}

// look copies what was launched in the copier's slots, and says whether anything was.
func (c *copier) look() (found bool) {
	for i := c.first; i < unpackSlots; i += c.step {
		s := &c.u.slots[i]
		if s.state.Load() != slotLaunched { // pairs with the store in launch
			continue
		}
		unpack(s.to, c.u.bounce, s.descriptors)
		s.state.Store(slotDone) // pairs with the load in done
		found = true
	}
	return found
}

// ring wakes a copier that sleeps. A bell that was rung before is enough.
func (c *copier) ring() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}
