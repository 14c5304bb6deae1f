package copyrpc

import (
	"sync/atomic"

	"transportbench/core/fabric/shm"
)

// twin is a number that the peer's device writes or reads while this side looks at it or
// changes it. Verbs promise nothing about such a word before a completion tells of it
// (InfiniBand Architecture Specification, volume 1, o9-20): Soft-RoCE copies byte by
// byte where the processor does, and a number that is half old and half new is a third
// one. So the number is there twice.
type twin struct{ first, second *atomic.Uint64 }

const twinSize = 16

func twinAt(memory []byte, offset int) twin {
	return twin{shm.Word64(memory, offset), shm.Word64(memory, offset+8)}
}

// store changes the number, for a device to read. A device that goes upwards and finds
// any of the new number in first finds all of it in second.
func (t twin) store(n uint64) {
	t.second.Store(n)
	t.first.Store(n)
}

// load returns the number, if it is whole. A device that goes upwards has written all of
// first before any of second, so that whatever second holds of a number that is being
// written, first then differs from it.
func (t twin) load() (n uint64, whole bool) {
	n = t.second.Load()
	return n, n == t.first.Load()
}
