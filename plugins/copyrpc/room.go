package copyrpc

// The arithmetic of a ring's producer. Positions are virtual: they only grow, and
// a position's place in the ring is its low bits.
//
// Let C be the ring's size, A the allowance of the largest message, and R the room of
// all responses that are promised at most, R <= C/2. A call is posted only if it ends at
// most C-R-A after what the peer is known to have let go. A caller has no more than R/A
// calls without a released response, and the header of the batch that a call goes with
// tells how far the caller has let go. So when a request is polled, the replies that are
// owed and those that the caller holds take R at most. Calls and what came before them
// take C-R-A, and one filler, which is shorter than the message that did not fit, takes
// less than A: a reply always finds room.

// cursor is where a producer stands.
type cursor struct {
	start uint64 // of the open batch, a multiple of the unit
	next  uint64 // of the next message; start where none is open
}

// place is where a message goes.
type place struct {
	cursor
	message uint64 // its position
	filler  uint64 // bytes to the ring's end that a filler covers before the batch; 0 for none
	closes  bool   // the batch open before has to be closed first
}

// fits says where a message of that space goes in the batch that is open, or in one
// that is begun at the cursor, and whether it ends before the ring does.
func (c cursor) fits(space, size uint64) (message uint64, ok bool) {
	message = c.next
	if c.next == c.start {
		message += headerSize
	}
	return message, (c.start^(message+space-1))&^(size-1) == 0
}

// put places a message of that space behind the cursor: in the open batch where it
// fits before the ring's end, else at the ring's start.
func (c cursor) put(space, size uint64) (p place) {
	if at, ok := c.fits(space, size); ok {
		return place{cursor: cursor{start: c.start, next: at + space}, message: at}
	}
	open := c.next != c.start
	end := roundUp(c.next)
	p.closes = open
	if rest := -end & (size - 1); rest != 0 {
		p.filler = rest
		end += rest
	}
	p.start = end
	p.message = end + headerSize
	p.next = p.message + space
	return p
}

// end is where the batch ends with what is in it.
func (c cursor) end() uint64 { return roundUp(c.next) }
