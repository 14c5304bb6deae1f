package mpsc

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/shm"
)

// The layout of a queue, in bytes from its start. The counters are two cache lines apart, because
// processors prefetch adjacent lines in pairs.
const (
	tailOffset  = 0   // u64: slots claimed by producers
	slotsOffset = 128 // the consumer's counter is private

	// SlotSize is one cache line.
	SlotSize = 64
	// MaxPayload is the longest payload.
	MaxPayload = SlotSize - payloadOffset

	// Within a slot.
	// u64: position+1 once the slot is filled, position+slots once it is free again
	turnOffset    = 0
	tokenOffset   = 8
	kindOffset    = 16 // u32
	lengthOffset  = 20 // u32
	payloadOffset = 24
)

// Bytes returns how much memory a queue takes.
func Bytes(slots int) int { return slotsOffset + slots*SlotSize }

// Message is a message of a queue. Payload belongs to the queue until the next Pop.
type Message struct {
	Kind    uint32
	Token   uint64
	Payload []byte
}

// Queue is one side's view of a queue. Any number of producers may each have one, and one consumer.
// A Queue itself belongs to one thread.
type Queue struct {
	memory []byte
	tail   *atomic.Uint64
	turns  []*atomic.Uint64
	slots  uint64
	popped uint64 // of the consumer
	held   bool   // the last popped slot is not free yet
}

// New returns a view of a queue with slots messages, a power of two, in memory, which all sides
// share. It is aligned to a cache line, and one side, the consumer, has called [Clear] on it
// before.
func New(memory []byte, slots int) (*Queue, error) {
	if !pow2.Is(slots) || slots < 2 || len(memory) < Bytes(slots) {
		return nil,
			fmt.Errorf(
				"queue of %d slots in %d bytes: want a power of two, at least 2, and %d bytes",
				slots, len(memory), Bytes(max(slots, 2)))
	}
	q := &Queue{memory: memory, tail: shm.Word64(memory, tailOffset), slots: uint64(slots)}
	for i := range slots {
		q.turns = append(q.turns, shm.Word64(memory, slotsOffset+i*SlotSize+turnOffset))
	}
	return q, nil
}

// Clear empties a queue. Nobody else may use it meanwhile.
func (q *Queue) Clear() {
	for i, turn := range q.turns {
		turn.Store(uint64(i))
	}
	q.tail.Store(0)
	q.popped, q.held = 0, false
}

// Push copies a message into the queue; ok is false if the queue is full. The payload may have
// [MaxPayload] bytes.
func (q *Queue) Push(kind uint32, token uint64, payload []byte) (ok bool) {
	for {
		position := q.tail.Load()
		i := position & (q.slots - 1)
		switch turn := q.turns[i].Load(); {
		case turn == position:
			if !q.tail.CompareAndSwap(position, position+1) {
				continue // another producer was faster
			}
			slot := q.slot(i)
			binary.NativeEndian.PutUint64(slot[tokenOffset:], token)
			binary.NativeEndian.PutUint32(slot[kindOffset:], kind)
			binary.NativeEndian.PutUint32(slot[lengthOffset:],
				uint32(copy(slot[payloadOffset:], payload)))
			q.turns[i].Store(position + 1) // pairs with the load in Pop
			return true
		case turn < position:
			return false // the consumer has not freed the slot of the last lap
		}
	}
}

// Pop puts the next message into m; ok is false if there is none. It frees the slot of the previous
// one.
func (q *Queue) Pop(m *Message) (ok bool) {
	q.Release()
	i := q.popped & (q.slots - 1)
	if q.turns[i].Load() != q.popped+1 { // pairs with the store in Push
		return false
	}
	slot := q.slot(i)
	m.Token = binary.NativeEndian.Uint64(slot[tokenOffset:])
	m.Kind = binary.NativeEndian.Uint32(slot[kindOffset:])
	length := binary.NativeEndian.Uint32(slot[lengthOffset:])
	m.Payload = slot[payloadOffset : payloadOffset+min(length, MaxPayload)]
	q.held = true
	return true
}

// Release frees the slot of the last popped message.
func (q *Queue) Release() {
	if q.held {
		q.held = false
		q.turns[q.popped&(q.slots-1)].Store(q.popped + q.slots)
		q.popped++
	}
}

func (q *Queue) slot(i uint64) []byte {
	at := slotsOffset + i*SlotSize
	return q.memory[at : at+SlotSize : at+SlotSize]
}
