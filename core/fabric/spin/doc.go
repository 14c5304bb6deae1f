// Package spin is for threads that wait for each other outside of measured windows: in probes, and
// while they connect. A thread spins, because the answer usually comes within microseconds. If it
// does not come within a multiple of the usual time, the thread sleeps for a moment: the other side
// may need this processor, and so does the control plane.
//
// It sleeps instead of yielding. On a busy machine, sched_yield(2) gives up the rest of a time
// slice and the place in the queue. Two threads that wait for each other so on two processors then
// run by turns, and each message takes a turn: with three busy programs on each processor, probes
// of 2 ms took up to 11 s, and with sleeps 0.1 s.
package spin
