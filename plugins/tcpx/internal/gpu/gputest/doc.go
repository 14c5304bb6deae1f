// Package gputest has a fake GPU for tests, whose memory is host memory. It does its work as late
// as allowed, so that bounce memory that is reused too early is unpacked as garbage. It
// interprets the unpack kernel thread by thread, and reports calls in an order that is wrong on
// a GPU.
package gputest
