// Package shm is the shared-memory transport: package core/fabric/shm/inbox as a plugin,
// with its ring, sizes and backing as options. The documentation of inbox follows a call
// through shared memory step by step.
package shm
