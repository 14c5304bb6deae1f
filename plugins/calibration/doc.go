// Package calibration is a transport with a known cost: package core/fabric/shm/inbox, as in
// plugins/shm, with options that delay, limit, stall and damage calls by exactly known amounts. A
// measurement of it shows what the tool can see. It is an instrument, not a candidate.
//
// A worker wraps one of the inbox (worker_datapath.go):
//
//   - A delay starts when the caller's worker finds the response in shared memory, and ends when
//     Poll returns it. Until then [held] has a copy. Without a delay a response takes the same path
//     with its reading of the clock, so that two delays, one of which may be 0, differ by the time
//     between the readings alone. That path makes the transport slower than shm.
//   - A rate admits the calls of one worker at absolute times, with a credit of the calls of 1 ms,
//     or one call.
//   - A stall begins at every multiple of stall-every on the host's CLOCK_MONOTONIC, so all workers
//     on a host stand still at the same time. Until it ends, Post takes nothing and Poll returns
//     nothing.
//   - client-time and daemon-time are spent spinning: by Post before each call, and by Poll before
//     it returns a request. With daemon-time, a Poll returns one event, as if it served one request
//     after another.
//   - Each worker damages every N-th response that it polls, or every N-th with a payload. With
//     reorder-every, it also returns every N-th request after the next one, which breaks the
//     promise of [transport.Capabilities] on purpose.
//
// Random numbers have a fixed seed for each worker of each rank.
package calibration
