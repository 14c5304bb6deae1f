// Package shm is the shared-memory transport: core/fabric/shm/inbox as a plugin, with its
// ring, sizes and backing as options.
package shm
