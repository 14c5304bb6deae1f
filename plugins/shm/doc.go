// Package shm is the shared-memory transport: core/inbox as a plugin, with its
// ring, sizes and backing as options.
package shm
