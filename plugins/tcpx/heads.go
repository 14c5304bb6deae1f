package tcpx

import (
	"fmt"

	"transportbench/core/transport"
)

// heads are the first bytes of messages whose payloads go to device memory. They are
// copied out of bounce memory when a request is unpacked: the runtime has to see them,
// and a copy back from the device would be waited for.
type heads struct {
	size int // bytes of each
	// memory has room for the heads of all messages that were announced and not
	// delivered, and of as many that were handed out with the last Poll.
	memory  []byte
	next    uint   // message, as the inbox counts them: the first of which nothing has come
	left    int    // bytes of the one before that are still to come
	missing []byte // of its head
	found   int    // descriptor that had the last byte: the next is mostly near
}

func newHeads(size int, inbox *ring[record]) *heads {
	return &heads{size: size, memory: make([]byte, 2*len(inbox.list)*size)}
}

// keptMessages is how many of the largest messages a connection's ring in device memory
// keeps behind those that its window needs, so that there are some to verify after a
// window, and mostKept the bytes that this may take.
const (
	keptMessages = 64
	mostKept     = 64 << 20
)

// deviceSlots is how many slots a ring in device memory has, for a need of so many.
func (s *settings) deviceSlots(slots int) int {
	return s.wholeSlots(slots + min(keptMessages*s.payload, mostKept)/s.request)
}

var _ transport.DeviceReader = (*worker)(nil)

// ReadDevice implements [transport.DeviceReader]. A place is a position in the requests
// that a connection has received, all of them taken as full.
func (w *worker) ReadDevice(id transport.PeerID, place uint64, into []byte) (there bool, err error) {
	if w.destroyed {
		return false, opError("read", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil {
		return false, opError("read", id, transport.ErrPeerDown)
	}
	p, request := w.peers[id], uint64(w.settings.request)
	from, ok := w.unpacks.unpacker.(reader)
	if !ok {
		return false, opError("read", id, fmt.Errorf("mode %s: payloads are in the host's memory: %w", w.settings.mode.name, transport.ErrUnsupported))
	}
	if len(into) > w.settings.payload {
		return false, opError("read", id, transport.ErrTooLarge)
	}
	number, slots := place/request, uint64(w.settings.slots)
	if p.comm.receivePosted-number > slots { // a receive that was posted since may have its slot
		return false, nil
	}
	if err := from.read(into, p.destination.slice(int(number%slots*request+place%request), len(into))); err != nil {
		return false, opError("read", id, err)
	}
	return true, nil
}
