package arena

import (
	"fmt"

	"transportbench/core/fabric/shm"
)

// bumpHeader is what a Bump needs besides the memory of its blocks.
const bumpHeader = 128

// Bump allocates from front to back, and frees everything at once. Threads and processes share it,
// as an [Arena]; a process that is killed loses what it has allocated until the next Reset.
type Bump struct{ memory []byte }

// NewBump returns a view of the Bump in memory, which is all zero at first and aligned to a cache
// line.
func NewBump(memory []byte) (*Bump, error) {
	if len(memory) <= bumpHeader {
		return nil, fmt.Errorf("bump arena in %d bytes: want more than %d", len(memory), bumpHeader)
	}
	return &Bump{memory}, nil
}

// Allocate returns the offset in the memory of size bytes, aligned to a cache line. The error is
// ErrFull.
func (b *Bump) Allocate(size int) (offset int, err error) {
	next := shm.Word64(b.memory, 0)
	need := (uint64(max(size, 0)) + unit - 1) &^ (unit - 1)
	for {
		old := next.Load()
		if limit := uint64(len(b.memory) - bumpHeader); old > limit || need > limit-old {
			return 0, ErrFull
		}
		if next.CompareAndSwap(old, old+need) {
			return bumpHeader + int(old), nil
		}
	}
}

// Reset frees all blocks. Nobody may use one, or allocate meanwhile.
func (b *Bump) Reset() { shm.Word64(b.memory, 0).Store(0) }
