package copyrpc

import (
	"sync/atomic"

	"transportbench/core/fabric/shm"
)

// doubleWord is a number that one side's device reads or writes while the other side's
// processor uses it. Verbs promise nothing about such a word until a completion reports
// it (InfiniBand Architecture Specification, volume 1, o9-20): Soft-RoCE copies byte by
// byte, so the processor can see half of the old and half of the new number. The number is
// therefore stored twice, and a reader accepts it only if both copies agree.
type doubleWord struct{ first, second *atomic.Uint64 }

const doubleWordSize = 16

func doubleWordAt(memory []byte, offset int) doubleWord {
	return doubleWord{shm.Word64(memory, offset), shm.Word64(memory, offset+8)}
}

// store changes the number for a device to read. A device reads upwards: if it finds any
// of the new number in first, it finds all of it in second.
func (d doubleWord) store(n uint64) {
	d.second.Store(n)
	d.first.Store(n)
}

// load returns the number, and false if it is being written. A device writes upwards: it
// has written all of first before any of second, so if second holds a part of a new
// number, first differs from it.
func (d doubleWord) load() (n uint64, whole bool) {
	n = d.second.Load()
	return n, n == d.first.Load()
}
