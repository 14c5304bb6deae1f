//go:build !amd64 || race

package shm

import "sync/atomic"

// On arm64 the store of sync/atomic is a store-release already. The race detector
// understands only sync/atomic.

// StoreRelease32 stores v. A thread that loads v also sees everything that this
// thread wrote before. It orders nothing that follows.
func StoreRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

// StoreRelease64 is StoreRelease32 for 64 bits.
func StoreRelease64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
