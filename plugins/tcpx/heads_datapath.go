package tcpx

// take copies what a request has of heads out of bounce memory, before the request is
// unpacked. Messages are announced before their bytes, in order, and so are requests.
func (h *heads) take(inbox *ring[record], bounce []byte, r *receiveRequest) error {
	for at := 0; at < r.total; {
		if h.left == 0 {
			// Empty messages are delivered when they are announced, and may be gone.
			if int(inbox.first-h.next) > 0 {
				h.next = inbox.first
			}
			if h.next == inbox.last {
				return errProtocol
			}
			h.left = int(inbox.at(h.next).size)
			h.missing = h.of(h.next, h.left)
			h.next++
			continue
		}
		n := min(h.left, r.total-at)
		for to := at; to < at+n && len(h.missing) > 0; {
			copied := h.copyFrom(bounce, r.descriptors, to)
			if copied == 0 {
				return errProtocol
			}
			to += copied
		}
		at += n
		h.left -= n
	}
	return nil
}

// copyFrom copies what the fragment with the byte at an offset of a request has of the
// missing head, and says how much that is.
func (h *heads) copyFrom(bounce []byte, descriptors []descriptor, at int) int {
	for range descriptors {
		if h.found >= len(descriptors) {
			h.found = 0
		}
		d := &descriptors[h.found]
		if skip := at - int(d.destination); skip >= 0 && skip < int(d.length) {
			n := copy(h.missing, bounce[d.source : d.source+d.length][skip:])
			h.missing = h.missing[n:]
			return n
		}
		h.found++
	}
	return 0
}

// of is the head of a message of size bytes, as the inbox counts messages. What was
// handed out with a Poll stays until the next one: in between no more messages can be
// announced than the inbox has room for.
func (h *heads) of(message uint, size int) []byte {
	at := int(message) & (len(h.memory)/h.size - 1) * h.size
	n := min(size, h.size)
	return h.memory[at : at+n : at+n]
}
