package tcpx

// control is the control socket, with what waits to be sent and what came in part.
type control struct {
	fd         int
	out        []byte
	head, tail int // of out, what waits
	in         []byte
	have       int // bytes of in
	full       bool
}

// Room that is kept in the control socket's buffer. Messages leave some for chunks,
// and both leave some for credits, of which there are no more than requests, and for
// a last word.
const (
	roomForLast    = 2 * recordSize
	roomForCredits = requests*recordSize + roomForLast
	roomForChunks  = roomForCredits + 64*recordSize
)

func newControl(messages int) control {
	return control{fd: -1, out: make([]byte, 2*messages*recordSize+2*roomForChunks), in: make([]byte, 512*recordSize)}
}

// room is how many bytes fit.
func (c *control) room() int {
	if c.head > 0 && c.head == c.tail {
		c.head, c.tail = 0, 0
	}
	return len(c.out) - (c.tail - c.head)
}

// put appends a record, for which there must be room.
func (c *control) put(r record) {
	if len(c.out)-c.tail < recordSize {
		c.tail = copy(c.out, c.out[c.head:c.tail])
		c.head = 0
	}
	r.put(c.out[c.tail:])
	c.tail += recordSize
}

// flush sends what waits, as far as the socket takes it, and says whether any went.
func (c *control) flush() (moved bool, err error) {
	if c.head == c.tail {
		return false, nil
	}
	n, err := sendBytes(c.fd, c.out[c.head:c.tail])
	c.head += n
	if c.full = c.head < c.tail; !c.full {
		c.head, c.tail = 0, 0
	}
	return n > 0, err
}

// readControl takes in what the peer says.
func (c *comm) readControl() error {
	l := &c.control
	n, err := receiveBytes(l.fd, l.in[l.have:])
	if n == 0 {
		return err
	}
	l.have += n
	at := 0
	for ; l.have-at >= recordSize; at += recordSize {
		var r record
		r.get(l.in[at:])
		if err := c.accept(&r); err != nil {
			return err
		}
	}
	l.have = copy(l.in, l.in[at:l.have])
	return nil
}

// accept takes one record in.
func (c *comm) accept(r *record) error {
	switch r.kind {
	case recordCredit:
		// The peer uses a slot of its ring again only after it has consumed what came
		// for it before.
		if c.creditCount-c.sendActive >= requests || uint64(r.index) != c.creditCount%requests {
			return errProtocol
		}
		c.credits[r.index] = credit{tag: r.tag, size: int(r.size)}
		c.creditCount++
		return nil
	case recordChunk:
		return c.expect(r)
	case recordCall, recordReply:
		if c.inbox.full() || r.tag != c.messages {
			return errProtocol
		}
		c.messages++
		*c.inbox.push() = *r
		return nil
	case recordRefusal:
		switch r.index {
		case refusalTag:
			return errTagMismatch
		case refusalTruncated:
			return errTruncated
		}
		return errProtocol
	case recordFarewell:
		return errFarewell
	default:
		return errProtocol
	}
}

// refuse gives the connection up, and tells the peer why.
func (c *comm) refuse(reason uint16, err error) error {
	c.control.put(record{kind: recordRefusal, index: reason})
	_, _ = c.control.flush()
	return err
}
