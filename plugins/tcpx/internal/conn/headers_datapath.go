package conn

import (
	"transportbench/core/fabric/queue"
	"transportbench/plugins/tcpx/internal/bounce"
)

// headerCache keeps the first bytes of messages whose payloads go to device memory. They
// are copied out of bounce memory before a request is unpacked: the runtime must see them,
// and copying them back from the device would block.
type headerCache struct {
	messageSlots        // bytes of each message
	next         uint64 // the first message, as announced counts them, of which nothing has come
	left         int    // bytes of the message before next that are still to come
	missing      []byte // of its header
	found        int    // fragment that had the last byte: the next is mostly near
	// fetch brings bytes of bounce memory to the processor; nil if it sees them anyway
	fetch func(source uint32, size int) error

	copies, copiedBytes uint64
}

// take copies the headers in a request out of bounce memory. Messages are announced before
// their bytes, and both come in order.
func (h *headerCache) take(announced *queue.Queue[record], memory []byte, r *receiveRequest) error {
	for at := 0; at < r.total; {
		if h.left == 0 {
			// Empty messages are delivered when they are announced, and may be gone.
			if int64(announced.First()-h.next) > 0 {
				h.next = announced.First()
			}
			if h.next == announced.Last() {
				return ErrProtocol
			}
			h.left = int(announced.At(h.next).size)
			h.missing = h.of(h.next, h.left)
			h.next++
			continue
		}
		n := min(h.left, r.total-at)
		for to := at; to < at+n && len(h.missing) > 0; {
			copied, err := h.copyFrom(memory, r.fragments, to)
			if err != nil {
				return err
			}
			if copied == 0 {
				return ErrProtocol
			}
			to += copied
		}
		at += n
		h.left -= n
	}
	return nil
}

// copyFrom copies to the missing header from the fragment that holds the byte at an offset
// of a request, and returns how many bytes it copied.
func (h *headerCache) copyFrom(memory []byte, fragments []bounce.Fragment, at int) (int, error) {
	for range fragments {
		if h.found >= len(fragments) {
			h.found = 0
		}
		f := &fragments[h.found]
		if skip := at - int(f.Destination); skip >= 0 && skip < int(f.Length) {
			n := min(len(h.missing), int(f.Length)-skip)
			from := f.Source + uint32(skip)
			if h.fetch != nil {
				if err := h.fetch(from, n); err != nil {
					return 0, err
				}
			}
			copy(h.missing, memory[from:][:n])
			h.copies++
			h.copiedBytes += uint64(n)
			h.missing = h.missing[n:]
			return n, nil
		}
		h.found++
	}
	return 0, nil
}
