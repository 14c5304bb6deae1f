// Package shm is the shared-memory transport: package core/fabric/shm/inbox as a plugin,
// with its ring, sizes and backing as options. The documentation of inbox follows a call
// through shared memory step by step. It makes no checks of payloads, so both tracks of a
// comparison run the same.
package shm
