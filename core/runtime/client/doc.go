// Package client is the measured client: one thread, or one of several on a thread, that keeps
// calls in flight over a worker, verifies the responses and records latencies.
//
// window.go runs a window, from settling to draining, and has the contract of the loops, callLoop.
// A [Client] has one of these loops, which is chosen when it is made:
//
//   - repeated_datapath.go: a closed loop that draws its requests once and repeats them in order
//   - drawn_datapath.go: a closed loop that draws each request as it goes;
//     bursts.go lets each iteration of a hand-off end before the next
//   - open_datapath.go: an open loop, whose calls are due at a rate
//
// calls_datapath.go has what the loops share, a call from its issue to the verified response. Every
// window counts operations and samples latencies. The other recorders are there or not for the
// whole run: the stages of calls (stages.go), counts by the rank that was called (peers.go), whole
// iterations (iterations.go), and the times of open loops and meshes. One that a run lacks is nil.
// Most calls test for none of them: chooseLoop sets eachCall and completeEach for the recorders of
// each call, and the rest are tested for only when a latency is sampled.
package client
