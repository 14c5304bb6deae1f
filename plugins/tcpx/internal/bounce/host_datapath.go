package bounce

// Launch implements [Unpacker].
func (u *Host) Launch(slot int, fragments []Fragment, to Buffer) error {
	s := &u.slots[slot]
	if len(u.copiers) == 0 {
		unpack(to.Host, u.bounce, fragments)
		s.state.Store(slotDone)
		return nil
	}
	s.fragments, s.to = fragments, to.Host
	s.state.Store(slotLaunched) // pairs with the load in copyLaunched
	if c := u.copiers[slot%len(u.copiers)]; c.asleep.Load() {
		c.wake()
	}
	return nil
}

// Done implements [Unpacker].
func (u *Host) Done(slot int) (bool, error) {
	s := &u.slots[slot]
	if s.state.Load() != slotDone { // pairs with the store in copyLaunched
		return false, nil
	}
	s.state.Store(slotFree)
	return true, nil
}

// unpack copies fragments to their destination.
func unpack(to, bounce []byte, fragments []Fragment) {
	for i := range fragments {
		f := &fragments[i]
		copy(to[f.Destination:f.Destination+f.Length], bounce[f.Source:f.Source+f.Length])
	}
}

// copyLaunched copies what was launched in the copier's slots and reports whether
// anything was.
func (c *copier) copyLaunched() (found bool) {
	for i := c.first; i < UnpackSlots; i += c.step {
		s := &c.host.slots[i]
		if s.state.Load() != slotLaunched { // pairs with the store in Launch
			continue
		}
		unpack(s.to, c.host.bounce, s.fragments)
		s.state.Store(slotDone) // pairs with the load in Done
		found = true
	}
	return found
}
