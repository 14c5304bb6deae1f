package uring

// The positions in a queue that two sides share are free-running 32-bit counts: the reader's head
// and the writer's tail. An entry's place is its position modulo the number of entries, a power of
// two. These functions know counts and no memory.

// used returns how many entries lie between head and tail.
func used(head, tail uint32) uint32 { return tail - head }

// room returns how many entries the writer may add. A head that is out of reach of tail, which the
// kernel never leaves, counts as no room.
func room(head, tail, entries uint32) uint32 {
	if n := used(head, tail); n < entries {
		return entries - n
	}
	return 0
}

// place returns where the entry at a position lies.
func place(position, entries uint32) uint32 { return position & (entries - 1) }

// window is the part of a stream's ring that the kernel may fill: from the position of the next
// byte that it writes to the end of what it was given. Positions count all bytes of the stream.
type window struct {
	size, chunk uint64 // of the ring, and of what is given at once; chunk divides size
	received    uint64 // bytes that the kernel has reported
	given       uint64 // bytes that the kernel may fill; a multiple of chunk
}

// grant returns the position of the next chunk to give to the kernel, if one is free. consumed is
// the number of bytes that the reader has finished with.
func (w *window) grant(consumed uint64) (position uint64, ok bool) {
	if w.given+w.chunk > consumed+w.size {
		return 0, false
	}
	position = w.given
	w.given += w.chunk
	return position, true
}

// left returns how many bytes the kernel may still write.
func (w *window) left() uint64 { return w.given - w.received }

// fill records n more bytes. It returns false if the kernel was not given that many.
func (w *window) fill(n int) bool {
	if n < 0 || uint64(n) > w.left() {
		return false
	}
	w.received += uint64(n)
	return true
}
