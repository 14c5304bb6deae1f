// Package loop has what the polling loops of clients and daemons share: the state of a window, the
// idle strategy, the watch for gaps, sampling, timing, and the traces that both sides of a call
// stamp.
//
// What is called in an iteration is inlined or one call, does not allocate, and does not lock.
package loop
