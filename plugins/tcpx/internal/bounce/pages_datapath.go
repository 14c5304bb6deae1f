package bounce

// Reserve implements [Allocator].
func (p *Pages) Reserve(pages int, held bool) bool { return p.reserve(pages, held) }

// Receive implements [Allocator].
func (p *Pages) Receive(fd, want int, last Fragment, more []Fragment) (grown uint32, count int,
	err error) {
	v := &p.vectors
	v.Reset()
	rest := 0
	if used := last.Length % PageSize; used != 0 {
		at := int(last.Source + last.Length)
		rest = min(PageSize-int(used), want)
		v.Add(p.bytes[at : at+rest])
	}
	top := len(p.free)
	for room := want - rest; room > 0 && !v.Full() && v.Len() < len(more); room -= PageSize {
		top--
		at := int(p.free[top]) * PageSize
		v.Add(p.bytes[at : at+min(room, PageSize)])
	}
	if v.Len() == 0 {
		return 0, 0, nil
	}
	n, err := v.Receive(fd)
	if n == 0 {
		return 0, 0, err
	}
	grown = uint32(min(n, rest))
	return grown, len(p.TakePages(n-int(grown), more[:0])), nil
}

// TakePages implements [PageTaker].
func (p *Pages) TakePages(size int, to []Fragment) []Fragment {
	for ; size > 0; size -= PageSize {
		page := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		to = append(to, Fragment{Source: page * PageSize, Length: uint32(min(size, PageSize)),
			Token: page})
	}
	return to
}

// Give implements [Allocator]. A fragment is a page.
func (p *Pages) Give(fragments []Fragment, reserved int) {
	for i := len(fragments) - 1; i >= 0; i-- {
		p.free = append(p.free, fragments[i].Token)
	}
	p.unreserved += reserved
}
