package conn

import (
	"transportbench/core/fabric/queue"
	"transportbench/core/transport"
)

// messages are the messages of both streams. Their kinds, numbers and sizes travel over the control
// socket, and so do small messages themselves.
type messages struct {
	posted    uint64 // by this side
	maxInline int    // bytes of the largest message that may leave on the control socket

	announced queue.Queue[record] // by the peer, and not delivered
	inline    messageSlots        // messages that came on the control socket
}

func newMessages(c *Config) messages {
	m := messages{announced: queue.New[record](c.Messages)}
	m.inline = newMessageSlots(c.Inline, m.announced.Cap())
	return m
}

// messageSlots keeps the first bytes of messages: of all that were announced and not delivered,
// and of as many that the last Poll handed out. The latter stay until the next Poll: until then no
// more messages can be announced than announced has room for.
type messageSlots struct {
	size   int // bytes of each message
	memory []byte
}

// of returns the place for a message of size bytes, or for its first, by its number in announced.
func (s *messageSlots) of(message uint64, size int) []byte {
	at := int(message) & (len(s.memory)/s.size - 1) * s.size
	n := min(size, s.size)
	return s.memory[at : at+n : at+n]
}

// newMessageSlots returns the places of messages, of which so many may be announced and not
// delivered. Their number is a power of two.
func newMessageSlots(size, messages int) messageSlots {
	return messageSlots{size: size, memory: make([]byte, 2*messages*size)}
}

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	Call  Kind = recordCall
	Reply Kind = recordReply
)

// PostMessage sends a message if there is room for all of it. What it does not send at once leaves
// with the Send after the next MarkFlushed of the stream.
func (c *Conn) PostMessage(kind Kind, number uint32, payload []byte) bool {
	size, m := len(payload), &c.messages
	if size == 0 || size > m.maxInline {
		posted := c.Announce(kind, number, size)
		if posted {
			c.Out.Write(payload)
		}
		return posted
	}
	if c.control.room() < roomForChunks+recordSize+size {
		return false
	}
	c.control.put(record{kind: uint8(kind), size: uint32(size), offset: number,
		total: uint32(size), tag: m.posted}, payload...)
	m.posted++
	c.counters.Messages++
	c.counters.InlineSent++
	c.counters.InlineSentBytes += uint64(size)
	return true
}

// Announce announces a message of size bytes that the stream is to carry next, if there is room for
// all of it.
func (c *Conn) Announce(kind Kind, number uint32, size int) bool {
	if !c.Out.makeRoom(uint64(size)) || c.control.room() < roomForChunks+recordSize {
		return false
	}
	c.control.put(record{kind: uint8(kind), size: uint32(size), offset: number,
		tag: c.messages.posted})
	c.messages.posted++
	c.counters.Messages++
	return true
}

// takeAnnouncement takes a message that the peer has announced, with its bytes if it is inline.
func (c *Conn) takeAnnouncement(r *record, inline []byte) error {
	m := &c.messages
	if m.announced.Full() || r.tag != m.announced.Last() {
		return ErrProtocol
	}
	if r.inline() {
		copy(m.inline.of(m.announced.Last(), len(inline)), inline)
		c.counters.InlineReceived++
		c.counters.InlineReceivedBytes += uint64(len(inline))
	}
	*m.announced.Push() = *r
	return nil
}

// Next returns the oldest message that the peer has announced and that was not delivered. ok is
// false if there is none.
func (c *Conn) Next() (kind Kind, number uint32, size int, ok bool) {
	if c.messages.announced.Empty() {
		return 0, 0, 0, false
	}
	r := c.messages.announced.Head()
	return Kind(r.kind), r.offset, int(r.size), true
}

// nextArrived reports whether the oldest announced message has arrived.
func (c *Conn) nextArrived() (bool, error) {
	r := c.messages.announced.Head()
	if r.inline() {
		return true, nil
	}
	return c.In.arrived(int(r.size))
}

// canDeliver reports whether the next message has arrived, or cannot arrive any more.
func (c *Conn) canDeliver() bool {
	if c.messages.announced.Empty() {
		return false
	}
	arrived, err := c.nextArrived()
	return arrived || err != nil
}

// Deliver puts the message of Next into an event and reports whether it has arrived; it leaves the
// event alone if not. The payload is valid until the next ReleaseDelivered.
func (c *Conn) Deliver(e *transport.Event) (bool, error) {
	in, number := &c.In, c.messages.announced.First()
	r := c.messages.announced.Head()
	size := int(r.size)
	if r.inline() {
		e.Size, e.Payload, e.DeviceOffset = size, c.messages.inline.of(number, size), 0
		c.messages.announced.Pop()
		return true, nil
	}
	if arrived, err := in.arrived(size); !arrived {
		return false, err
	}
	e.Size, e.Payload, e.DeviceOffset = size, nil, 0
	switch {
	case in.destination.Host != nil:
		e.Payload = in.at(in.read, size).Host
	case in.headers != nil:
		e.Payload = in.headers.of(number, size)
		fallthrough
	default:
		e.DeviceOffset = in.read
	}
	in.skip(size)
	c.messages.announced.Pop()
	return true, nil
}
