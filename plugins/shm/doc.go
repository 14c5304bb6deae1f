// Package shm is the shared-memory transport: package core/fabric/shm/inbox as a plugin,
// with its ring, sizes and backing as options. The documentation of inbox follows a call
// through shared memory step by step. The transport has no checks of payloads, so its cells are the
// same on both tracks of a comparison.
package shm
