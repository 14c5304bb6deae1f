package rdma

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"transportbench/core/fabric/shm"
)

// words is shared memory as words. Offsets come from the layout and are in
// bounds for the size that was checked when it was mapped.
type words struct{ base unsafe.Pointer }

func newWords(memory []byte, need int) (words, error) {
	if len(memory) < need {
		return words{}, fmt.Errorf("shared memory of %d bytes, and %d are needed", len(memory), need)
	}
	return words{unsafe.Pointer(unsafe.SliceData(memory))}, nil
}

func (m words) load32(offset uintptr) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(m.base, offset)))
}

func (m words) load64(offset uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(m.base, offset)))
}

// touch asks for a cache line that will be read, and does not wait for it.
func (m words) prefetch(offset uintptr) { _ = m.load64(offset) }

func (m words) store32(offset uintptr, v uint32) {
	shm.StoreRelease32((*uint32)(unsafe.Add(m.base, offset)), v)
}

func (m words) store64(offset uintptr, v uint64) {
	shm.StoreRelease64((*uint64)(unsafe.Add(m.base, offset)), v)
}

func (m words) swap64(offset uintptr, old, v uint64) bool {
	return atomic.CompareAndSwapUint64((*uint64)(unsafe.Add(m.base, offset)), old, v)
}

// The plain accesses are ordered by the atomic one on a slot's first word: they
// come before the store that publishes it and after the load that sees it.

func (m words) plain32(offset uintptr) *uint32 { return (*uint32)(unsafe.Add(m.base, offset)) }
func (m words) plain64(offset uintptr) *uint64 { return (*uint64)(unsafe.Add(m.base, offset)) }

func (m words) slice(offset uintptr, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, offset)), n)
}

// copyWords is copyShort into shared memory.
func (m words) copyWords(offset uintptr, source []byte) {
	copyShort(m.slice(offset, len(source)), source)
}

// copyShort copies what is short eight bytes at a time. It was often written just before,
// in words, or will be read so: a load that is wider than the store it reads from has to
// wait until that has reached the cache. to is as long as source at least.
func copyShort(to, source []byte) {
	t, f := unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(source))
	n := uintptr(len(source))
	i := uintptr(0)
	for ; i+8 <= n; i += 8 {
		*(*uint64)(unsafe.Add(t, i)) = *(*uint64)(unsafe.Add(f, i))
	}
	for ; i < n; i++ {
		*(*byte)(unsafe.Add(t, i)) = *(*byte)(unsafe.Add(f, i))
	}
}

// addressOf is where memory lies in this process.
func addressOf(memory []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

// bytesAt is the memory of an inline request, which need not be registered; that
// it is the caller's own is the caller's promise, as it is with verbs.
func bytesAt(address uint64, n int) []byte {
	p := uintptr(address)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}
