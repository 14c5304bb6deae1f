package tcpx

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/conn"
)

// postCall posts a call if there is room for it.
func (p *peer) postCall(op *transport.Op) bool {
	number, ok := p.calls.Next()
	if !ok {
		return false
	}
	switch {
	case op.DeviceSlot == 0:
		ok = p.conn.PostMessage(conn.Call, number, op.Payload)
	case p.w.source.copies():
		ok = p.copies.post(number, op)
	default:
		ok = p.postDevice(number, op)
	}
	if ok {
		p.calls.Begin(number, op.Token)
	}
	return ok
}

// postReply posts a reply to an open request if it can leave with the next Flush.
func (p *peer) postReply(op *transport.Op) bool {
	if !p.conn.Out.CanReply(len(op.Payload)) ||
		!p.conn.PostMessage(conn.Reply, uint32(op.Token), op.Payload) {
		return false
	}
	p.requests[op.Token] = false
	return true
}

// progress moves bytes in both directions. The receives that it posts are announced by the next
// Send: with a reply, if there is one, so that they cost no packet.
func (p *peer) progress() error {
	c := p.conn
	if err := c.Receive(); err != nil {
		return err
	}
	if err := c.Send(c.MayHoldCredits()); err != nil {
		return err
	}
	if err := c.FinishPoll(); err != nil {
		return err
	}
	return c.In.Refill()
}

// deliver hands out messages that have arrived as events from n on.
func (p *peer) deliver(events []transport.Event, n int) (int, error) {
	for n < len(events) {
		kind, number, size, ok := p.conn.Next()
		if !ok {
			return n, nil
		}
		call := kind == conn.Call
		if size > p.w.settings.payload || call && !p.requests.Available(number) ||
			!call && !p.calls.Waiting(number) {
			return n, conn.ErrProtocol
		}
		e := &events[n]
		if arrived, err := p.conn.Deliver(e); !arrived {
			return n, err
		}
		n++
		// Field by field: a literal is built on the stack with narrow stores and copied
		// with wide loads, which stall on them.
		e.Kind, e.Peer = transport.EventRequest, p.id
		if call {
			p.requests[number] = true
			e.Token = transport.Token(number)
			continue
		}
		e.Kind, e.Token = transport.EventResponse, p.calls.End(number)
		p.calls.Release(number)
	}
	return n, nil
}
