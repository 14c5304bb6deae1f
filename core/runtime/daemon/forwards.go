package daemon

import (
	"fmt"

	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// forwards are the requests that a daemon has passed on to another daemon, which responds to it, by
// the token of the call.
type forwards struct {
	list []forward
	free []uint32 // indices of list; a stack
}

// forward is a request that was passed on.
type forward struct {
	out   *outbox // for the response
	peer  transport.PeerID
	token transport.Token // of the request
	trace *loop.LinkTrace // nil unless traced
	open  bool            // no response yet
}

func newForwards(room int) forwards {
	f := forwards{list: make([]forward, room), free: make([]uint32, room)}
	for i := range f.free {
		f.free[i] = uint32(room - 1 - i)
	}
	return f
}

func (f *forwards) full() bool { return len(f.free) == 0 }

// open adds the request of e, whose response goes to out, and returns the token of its call. There
// must be room.
func (f *forwards) open(e *transport.Event, out *outbox) (*forward, transport.Token) {
	last := len(f.free) - 1
	index := f.free[last]
	f.free = f.free[:last]
	one := &f.list[index]
	one.out = out
	one.peer = e.Peer
	one.token = e.Token
	one.trace = nil
	one.open = true
	return one, transport.Token(index)
}

// respond adds the response e to the ops of its request's outbox, and returns the forward, which is
// valid until the next open. A response to no open call is an error.
func (f *forwards) respond(e *transport.Event) (*forward, error) {
	if e.Token >= transport.Token(len(f.list)) || !f.list[e.Token].open {
		return nil,
			fmt.Errorf("daemon: a response has token %d, which none of its open calls has: %w",
				e.Token, transport.ErrCorrupt)
	}
	one := &f.list[e.Token]
	if one.out.full() {
		return nil,
			fmt.Errorf("serve: callers have more open requests than the %d that the run allows",
				cap(one.out.ops))
	}
	one.open = false
	reply := one.out.add()
	reply.Kind = transport.OpReply
	reply.Peer = one.peer
	reply.Token = one.token
	reply.Payload = e.Payload
	f.free = append(f.free, uint32(e.Token))
	return one, nil
}
