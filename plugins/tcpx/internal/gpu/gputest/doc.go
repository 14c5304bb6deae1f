// Package gputest has a GPU for tests: a device whose memory is the host's, and which
// does its work as late as it may, so that bounce memory that is used again too early
// really is unpacked as garbage. It runs the text of the unpack kernel thread by
// thread, and complains of calls in an order that a GPU would not forgive.
package gputest
