package conn

import "transportbench/core/fabric/sock"

// controlSocket is the control socket with a buffer each way.
type controlSocket struct {
	fd         int // -1 until the connection is up
	send       func(fd int, b []byte) (int, error)
	out        []byte
	head, tail int // of out: what waits to be sent
	in         []byte
	filled     int  // bytes of in: a record in part
	full       bool // the socket had no room at the last flush

	calls, bytes uint64 // system calls, and bytes that they moved
}

// Room that is kept in the output buffer. Messages leave room for chunks, and both leave
// room for credits, of which there are as many as requests, and for a refusal or farewell.
const (
	roomForLast    = 2 * recordSize
	roomForCredits = Requests*recordSize + roomForLast
	roomForChunks  = roomForCredits + 64*recordSize
)

func newControlSocket(c *Config) controlSocket {
	return controlSocket{fd: -1, send: c.SendControl,
		in:  make([]byte, 512*recordSize+c.Messages*c.Inline),
		out: make([]byte, 2*c.Messages*(recordSize+c.Inline)+2*roomForChunks)}
}

// pending returns how many bytes wait to be sent.
func (s *controlSocket) pending() int { return s.tail - s.head }

// room returns how many bytes can be put.
func (s *controlSocket) room() int { return len(s.out) - s.pending() }

// hasRoomForChunk reports whether the record of another chunk can be put.
func (s *controlSocket) hasRoomForChunk() bool { return s.room() >= roomForCredits+recordSize }

// put appends a record and the message that follows it, if any. There must be room for both.
func (s *controlSocket) put(r record, message ...byte) {
	size := recordSize + len(message)
	if len(s.out)-s.tail < size {
		s.tail = copy(s.out, s.out[s.head:s.tail])
		s.head = 0
	}
	r.put(s.out[s.tail:])
	copy(s.out[s.tail+recordSize:], message)
	s.tail += size
}

// flush sends what the socket takes. It returns no error: the next read finds it, after
// the peer's last records.
func (s *controlSocket) flush() {
	if s.head == s.tail {
		return
	}
	n, _ := s.send(s.fd, s.out[s.head:s.tail])
	s.calls++
	s.bytes += uint64(n)
	s.head += n
	if s.full = s.head < s.tail; !s.full {
		s.head, s.tail = 0, 0
	}
}

// readControl reads the control socket and handles the records that have come.
func (c *Conn) readControl() error {
	s := &c.control
	n, err := sock.ReceiveBytes(s.fd, s.in[s.filled:])
	s.calls++
	s.bytes += uint64(n)
	if n == 0 {
		return err
	}
	s.filled += n
	return c.handleRecords()
}

// handleRecords handles the records in the control socket's buffer that are complete.
func (c *Conn) handleRecords() error {
	s, at := &c.control, 0
	for s.filled-at >= recordSize {
		var r record
		r.get(s.in[at:])
		end := at + recordSize
		if r.inline() {
			if r.total != r.size || int(r.size) > c.config.Inline {
				return ErrProtocol
			}
			if end += int(r.size); end > s.filled {
				break
			}
		}
		if err := c.handle(&r, s.in[at+recordSize:end]); err != nil {
			return err
		}
		at = end
	}
	s.filled = copy(s.in, s.in[at:s.filled])
	return nil
}

// handle handles one record, with the message that follows it if that is inline.
func (c *Conn) handle(r *record, message []byte) error {
	switch r.kind {
	case recordCredit:
		return c.Out.addCredit(r)
	case recordChunk:
		return c.In.expect(r)
	case recordCall, recordReply:
		return c.takeAnnouncement(r, message)
	case recordRefusal:
		switch r.index {
		case refusalTag:
			return ErrTagMismatch
		case refusalTruncated:
			return ErrTruncated
		}
		return ErrProtocol
	case recordFarewell:
		return ErrFarewell
	default:
		return ErrProtocol
	}
}

// refuse tells the peer why this side ends the connection, and returns err.
func (c *Conn) refuse(reason uint16, err error) error {
	c.control.put(record{kind: recordRefusal, index: reason})
	c.control.flush()
	return err
}
