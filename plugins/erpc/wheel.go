package erpc

// wheel holds packets until their time has come: a timing wheel after Carousel (Saeed
// et al., SIGCOMM 2017). A place covers a fixed time; what is due within it leaves in
// the order in which it came.
type wheel struct {
	width   int64 // of a place, in nanoseconds
	mask    int64
	places  []place
	entries []entry
	free    int32 // list of entries that are not in use; -1 ends it
	cursor  int64 // all places before this one, counted from time 0, are empty
	count   int
}

// place is a list of entries.
type place struct{ first, last int32 }

// entry is a packet that waits.
type entry struct {
	next    int32
	session uint16
	kind    kind
	request uint32
	number  uint32
}

// newWheel makes one for packets that wait for up to horizon, and for as many of them
// as capacity.
func newWheel(width, horizon int64, capacity int) *wheel {
	n := int64(powerOfTwo(int(min(horizon/width+2, maxPlaces))))
	if horizon/width+2 > n {
		width = horizon/(n-2) + 1
	}
	w := &wheel{width: width, mask: n - 1, places: make([]place, n), entries: make([]entry, capacity), free: -1}
	for i := range w.places {
		w.places[i] = place{-1, -1}
	}
	for i := range w.entries {
		w.entries[i].next = w.free
		w.free = int32(i)
	}
	return w
}

// wheelEntries is how many packets may wait in a worker's wheel: each has a credit, or
// answers one that had.
func wheelEntries(peers, credits int) int { return 2 * peers * credits }

// next is when the first packet is due, where there is one.
func (w *wheel) next() int64 {
	at := w.cursor
	for w.places[at&w.mask].first < 0 {
		at++
	}
	return at * w.width
}

// maxPlaces bounds a wheel's memory: beyond, places get wider.
const maxPlaces = 1 << 16

// put has e leave at a time, or at the horizon where that is before. It says no where
// there is no entry left.
func (w *wheel) put(e entry, now, at int64) bool {
	i := w.free
	if i < 0 {
		return false
	}
	if w.count == 0 {
		w.cursor = now / w.width
	}
	w.free = w.entries[i].next
	number := min(max((at+w.width-1)/w.width, w.cursor), w.cursor+w.mask)
	e.next = -1
	w.entries[i] = e
	p := &w.places[number&w.mask]
	if p.last < 0 {
		p.first = i
	} else {
		w.entries[p.last].next = i
	}
	p.last = i
	w.count++
	return true
}

// take returns the next packet that is due at now.
func (w *wheel) take(now int64) (entry, bool) {
	for end := now / w.width; w.cursor <= end; w.cursor++ {
		if w.count == 0 {
			w.cursor = end + 1
			break
		}
		p := &w.places[w.cursor&w.mask]
		i := p.first
		if i < 0 {
			continue
		}
		e := w.entries[i]
		if p.first = e.next; e.next < 0 {
			p.last = -1
		}
		w.entries[i].next = w.free
		w.free = i
		w.count--
		return e, true
	}
	return entry{}, false
}
