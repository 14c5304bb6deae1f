package loop

import (
	"encoding/binary"
	"sync/atomic"

	"transportbench/core/fabric/shm"
)

// LinkTrace splits the service time of one remote request at a time into its stages in the
// client's rank. Client and daemon are threads of one process and share no lock or channel, so
// the words are atomic.
type LinkTrace struct {
	// Word is the first word of the traced request, which has its key and operation; 0 for
	// none. The client stores it before it posts the request, and the daemon loads it after it
	// has polled a request.
	Word atomic.Uint64
	// Ticks that the daemon stores before it posts the response, and that the client loads
	// after it has polled it. 0 is not stamped.
	Picked, Flushed, Completed atomic.Uint64
	_                          [96]byte
}

// Begin traces the request with that first word.
func (t *LinkTrace) Begin(word uint64) {
	t.Picked.Store(0)
	t.Flushed.Store(0)
	t.Completed.Store(0)
	t.Word.Store(word) // pairs with the daemon's load in traced
}

// Traced reports whether the request with that first word is traced.
func (t *LinkTrace) Traced(word uint64) bool { return t.Word.Load() == word }

// End returns the stages of a request that was issued and completed at these ticks. ok is false
// if the daemon has not stamped all of them.
func (t *LinkTrace) End(issued, now uint64) (stages [4]uint64, ok bool) {
	at := [5]uint64{issued, t.Picked.Load(), t.Flushed.Load(), t.Completed.Load(), now}
	t.Word.Store(0)
	for i := range stages {
		// The daemon may have stamped another request with the same word.
		if at[i+1] < at[i] || at[i+1] == 0 {
			return stages, false
		}
		stages[i] = at[i+1] - at[i]
	}
	return stages, true
}

// CallTrace takes one call at a time over the transport apart into its stages. It lies in memory
// that the daemon shares with its clients, each daemon having one, and is zero at first. A client
// arms it some iterations before it issues the call, so that the lines are where they are needed
// when the call is made.
type CallTrace struct {
	// Owner is 1 + the daemon's number for the client that uses the trace; 0 for none. word is the
	// first word of the request, which has its key and operation. The client stores it to arm the
	// trace, and the daemon clears it once it has stamped the request.
	Owner, Word *atomic.Uint64
	// Ticks that the daemon stores after it has posted the reply, before it clears word.
	Seen, Served, Posted *atomic.Uint64
}

// CallTraceMemory is the size of a callTrace in bytes.
const CallTraceMemory = 512

// NewCallTrace returns the trace in a daemon's shared memory. The client's words and the daemon's
// have cache lines of their own.
func NewCallTrace(memory []byte) *CallTrace {
	const stamps = CallTraceMemory / 2
	return &CallTrace{
		Owner: shm.Word64(memory, 0), Word: shm.Word64(memory, 8),
		Seen: shm.Word64(memory, stamps), Served: shm.Word64(memory, stamps+8),
		Posted: shm.Word64(memory, stamps+16),
	}
}

// FirstWord returns 0 for a payload that is shorter than a word.
func FirstWord(payload []byte) uint64 {
	if len(payload) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(payload)
}
