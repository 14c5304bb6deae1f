// Package shm is memory that processes of one host share: segments, ordered
// stores to and parking on a word of them, telling that a process has died, and
// the floor of everything built on them.
//
// A segment comes from memfd_create and is mapped by a peer through
// /proc/PID/fd/N, so that nothing is left behind when a process is killed, and
// it is sealed, so that no peer can shrink it under another's feet. Where /proc
// is closed to the peer, a segment with a name in /dev/shm serves; it is for
// processes of one user, and is unlinked once all have mapped it.
package shm
