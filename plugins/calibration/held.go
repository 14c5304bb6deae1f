package calibration

import (
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// maxHeldBytes bounds the address space for payloads of held events. Only what is used takes
// memory.
const maxHeldBytes = 1 << 30

// held has the events that a worker keeps until they are due, with copies of their payloads.
type held struct {
	memory []byte
	stride int
	events []transport.Event // by slot
	free   []uint32          // slots, a stack, so that memory in the cache is used first
	given  []uint32          // slots of the events that the last Poll returned
	latest int64             // due time of all so far
	number uint64            // of the last ticket

	// queue[head:] are in order. A new one comes last unless delays vary, and the capacity is twice
	// the number of slots, so that tickets are rarely moved.
	queue []ticket
	head  int
}

// ticket is the place of a held event in the queue.
type ticket struct {
	due    int64
	number uint64 // of two events with the same due time, the lower number comes first
	slot   uint32
}

func newHeld(maxPayload, events int) (*held, error) {
	const minimum, unit = 8, 64
	stride := (maxPayload + unit - 1) &^ (unit - 1)
	n := max(minimum, min(2*events, maxHeldBytes/stride))
	memory, err := unix.Mmap(-1, 0, n*stride, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	h := &held{memory: memory, stride: stride, events: make([]transport.Event, n),
		free: make([]uint32, n), given: make([]uint32, 0, n), queue: make([]ticket, 0, 2*n)}
	for i := range h.free {
		h.free[i] = uint32(n - 1 - i)
	}
	return h, nil
}

func (h *held) close() error { return unix.Munmap(h.memory) }

func (h *held) empty() bool { return h.head == len(h.queue) }

// due returns when the first event is due; there must be one.
func (h *held) due() int64 { return h.queue[h.head].due }

// add copies an event and returns its ticket's number and the copy's payload. There must be a free
// slot.
func (h *held) add(e *transport.Event, due int64) (number uint64, payload []byte) {
	slot := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	to := &h.events[slot]
	*to = *e
	if e.Payload != nil {
		at := int(slot) * h.stride
		to.Payload = h.memory[at : at+len(e.Payload) : at+len(e.Payload)]
		copy(to.Payload, e.Payload)
	}
	return h.queueUp(slot, due), to.Payload
}

func (h *held) queueUp(slot uint32, due int64) (number uint64) {
	h.number++
	h.latest = max(h.latest, due)
	if len(h.queue) == cap(h.queue) {
		h.queue = h.queue[:copy(h.queue, h.queue[h.head:])]
		h.head = 0
	}
	t := ticket{due, h.number, slot}
	if last := len(h.queue) - 1; last < h.head || h.queue[last].due <= due {
		h.queue = append(h.queue, t)
		return h.number
	}
	at, _ := slices.BinarySearchFunc(h.queue[h.head:], due, func(t ticket, due int64) int {
		if t.due > due {
			return 1
		}
		return -1 // also those of the same time, which came before
	})
	h.queue = slices.Insert(h.queue, h.head+at, t)
	return h.number
}

// move changes the due time of the event with this number, if it is still held.
func (h *held) move(number uint64, due int64) {
	if at := h.find(number); at >= 0 {
		slot := h.queue[at].slot
		h.queue = slices.Delete(h.queue, at, at+1)
		h.queueUp(slot, due)
	}
}

// find returns the position of an event in the queue, or -1.
func (h *held) find(number uint64) int {
	at := slices.IndexFunc(h.queue[h.head:], func(t ticket) bool { return t.number == number })
	if at < 0 {
		return at
	}
	return h.head + at
}

// take moves the first event to e. Its payload is valid until release.
func (h *held) take(e *transport.Event) {
	slot := h.queue[h.head].slot
	if h.head++; h.empty() {
		h.queue, h.head = h.queue[:0], 0
	}
	*e = h.events[slot]
	h.given = append(h.given, slot)
}

// release frees the slots of events that were taken.
func (h *held) release() {
	h.free = append(h.free, h.given...)
	h.given = h.given[:0]
}

// drop forgets all events that were not taken.
func (h *held) drop() {
	for _, t := range h.queue[h.head:] {
		h.free = append(h.free, t.slot)
	}
	h.queue, h.head = h.queue[:0], 0
}
