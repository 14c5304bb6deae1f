package tcpx

// reserve implements [intake]. A connection that holds nothing leaves no other
// without: each of those that could be without has a unit that only they may take.
func (p *pool) reserve(pages int, held bool) bool {
	left := p.unclaimed - pages
	if held && left < p.spare*p.unit || left < 0 {
		return false
	}
	p.unclaimed = left
	return true
}

// receive implements [intake].
func (p *pool) receive(fd, want int, last fragment, more []fragment) (grown uint32, count int, err error) {
	v := &p.list
	v.reset()
	rest := 0
	if used := last.length % pageSize; used != 0 {
		at := int(last.source + last.length)
		rest = min(pageSize-int(used), want)
		v.add(p.bytes[at : at+rest])
	}
	top := len(p.free)
	for room := want - rest; room > 0 && !v.full() && v.count < len(more); room -= pageSize {
		top--
		at := int(p.free[top]) * pageSize
		v.add(p.bytes[at : at+min(room, pageSize)])
	}
	if v.count == 0 {
		return 0, 0, nil
	}
	n, err := v.receive(fd)
	if n == 0 {
		return 0, 0, err
	}
	grown = uint32(min(n, rest))
	for n -= int(grown); n > 0; n -= pageSize {
		page := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		more[count] = fragment{source: page * pageSize, length: uint32(min(n, pageSize)), token: page}
		count++
	}
	return grown, count, nil
}

// place implements [placer].
func (p *pool) place(size int, to []fragment) []fragment {
	for ; size > 0; size -= pageSize {
		page := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		to = append(to, fragment{source: page * pageSize, length: uint32(min(size, pageSize)), token: page})
	}
	return to
}

// give implements [intake]. A fragment is a page.
func (p *pool) give(fragments []fragment, reserved int) {
	for i := len(fragments) - 1; i >= 0; i-- {
		p.free = append(p.free, fragments[i].token)
	}
	p.unclaimed += reserved
}
