package shmperf

// nontemporal reports whether copyAround bypasses the caches.
const nontemporal = true

// copyAround copies src to dst, which is as long, with stores that bypass the caches (MOVNTDQ), and
// waits until they are visible (SFENCE). Both are whole cache lines, and dst is aligned to one.
//
//go:noescape
func copyAround(dst, src []byte)

// readLines loads every byte of b, which is whole cache lines.
//
//go:noescape
func readLines(b []byte)

// demoteLine hints that a cache line be moved to the level that all processors share (CLDEMOTE). A
// processor without the instruction does nothing.
//
//go:noescape
func demoteLine(line *byte)
