// Package shm shares memory between processes of one host: segments, words in
// them with ordered stores and futexes, and a watcher that reports when a process
// ends. The packages ring and inbox below it send messages through such memory.
//
// A segment comes from memfd_create. A peer maps it through /proc/PID/fd/N, so
// nothing is left behind when a process is killed. It is sealed, so no peer can
// shrink it while another has it mapped. If /proc is closed to the peer, use a
// named segment in /dev/shm: it works between processes of one user, and is
// unlinked once all of them have mapped it.
package shm
