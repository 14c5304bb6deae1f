// Package ring is a single-producer single-consumer ring of messages in memory
// that both sides see: two threads, or two processes that share a mapping. The
// caller brings the memory, so that the same code runs on a mapped segment and,
// under the race detector, on the Go heap.
//
// A message is one 64-byte slot: eight bytes of header, a token, and up to
// [InlineSize] bytes of payload. A longer payload lies in the ring's arena and
// its slot says where. Slots never move and their first word holds nothing but
// the ring's own flag, so no payload can be taken for a header.
//
// Three algorithms share the layout and differ in how a side learns of the
// other's progress; see [Algorithm]. [Producer.Push] writes, [Producer.Publish]
// makes visible what is not yet, [Consumer.Pop] borrows, [Consumer.Release]
// gives back.
//
// For calls with one reply each there are call slots, [Caller] and [Answerer]: a
// reply takes the place of its call, in the same cache line.
//
// Neither side trusts the other. Whatever is read from the shared memory is
// checked before it is used; [ErrCorrupt] says that a check failed.
package ring
