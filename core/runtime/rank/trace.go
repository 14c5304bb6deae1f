package rank

import "sync/atomic"

// trace takes one remote request of a client apart on its way through the
// client's own rank, one at a time. Client and daemon are threads of one
// process; the words are atomic since no lock and no channel is between them.
type trace struct {
	// word is the first of the request that is traced, which names its key and
	// what is asked for; 0 for none. The client writes it before it posts the
	// request, and the daemon reads it when it has polled one.
	word atomic.Uint64
	// What the daemon stamps, in ticks, before it posts the response that the
	// client then polls. 0 is not stamped.
	picked, flushed, completed atomic.Uint64
	_                          [96]byte
}

// begin traces a request.
func (t *trace) begin(word uint64) {
	t.picked.Store(0)
	t.flushed.Store(0)
	t.completed.Store(0)
	t.word.Store(word) // pairs with the daemon's load in traced
}

// traced says whether the request with that first word is the one.
func (t *trace) traced(word uint64) bool { return t.word.Load() == word }

// end returns the stages of a request that was issued and completed at these
// ticks; ok is false where the daemon has not stamped it all.
func (t *trace) end(issued, now uint64) (stages [4]uint64, ok bool) {
	at := [5]uint64{issued, t.picked.Load(), t.flushed.Load(), t.completed.Load(), now}
	t.word.Store(0)
	for i := range stages {
		// Another request with the same word may have been taken for it.
		if at[i+1] < at[i] || at[i+1] == 0 {
			return stages, false
		}
		stages[i] = at[i+1] - at[i]
	}
	return stages, true
}
