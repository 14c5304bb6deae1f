// Package ring holds single-producer single-consumer rings of messages in memory that
// two threads or two processes share. The caller provides the memory: a mapped segment,
// or the Go heap under the race detector, which does not see mapped memory.
//
// A message takes one slot of 64 bytes, a cache line: a flag, a word with length and
// kind, a token, and up to [InlineSize] bytes of payload. A wide slot is two lines and has up to
// [WideInlineSize]. A longer payload goes to the ring's arena, and the slot holds its offset. Slots
// never move, and the first word of a slot is only ever the flag, so a payload cannot be mistaken
// for a header.
//
// Three algorithms use this layout and differ in how one side learns of the other's
// progress; see [Algorithm]. [Producer.Push] writes a message, [Producer.Publish] makes
// it visible, [Consumer.Pop] lends it out, and [Consumer.Release] returns its slot. PushBatch
// and [Consumer.Drain] do the same for many messages.
//
// For calls with exactly one reply there are call slots instead, [Caller] and
// [Answerer]: the reply overwrites its call in the same slot.
//
// Neither side trusts the other. Every index, length and offset read from shared memory
// is checked before use; a failed check is [ErrCorrupt].
package ring
