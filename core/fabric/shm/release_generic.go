//go:build !amd64 || race

package shm

import "sync/atomic"

// On arm64 sync/atomic is a store-release as it is; the race detector follows
// nothing else.

// StoreRelease32 stores v so that everything before it in this thread is seen by
// whoever sees v. It orders nothing that follows.
func StoreRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

// StoreRelease64 is StoreRelease32 for 64 bits.
func StoreRelease64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
