package soft

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"transportbench/core/fabric/shm"
)

// words gives access to shared memory by offset. Offsets come from the layout and are in
// bounds because newWords checked the size.
type words struct{ base unsafe.Pointer }

func newWords(memory []byte, need int) (words, error) {
	if len(memory) < need {
		return words{}, fmt.Errorf("shared memory has %d bytes, needs %d", len(memory), need)
	}
	return words{unsafe.Pointer(unsafe.SliceData(memory))}, nil
}

func (m words) load32(offset uintptr) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(m.base, offset)))
}

func (m words) load64(offset uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(m.base, offset)))
}

// touch fetches the cache line of a word. The caller does not wait for it.
func (m words) touch(offset uintptr) { _ = m.load64(offset) }

func (m words) store32(offset uintptr, v uint32) {
	shm.StoreRelease32((*uint32)(unsafe.Add(m.base, offset)), v)
}

func (m words) store64(offset uintptr, v uint64) {
	shm.StoreRelease64((*uint64)(unsafe.Add(m.base, offset)), v)
}

func (m words) swap64(offset uintptr, old, v uint64) bool {
	return atomic.CompareAndSwapUint64((*uint64)(unsafe.Add(m.base, offset)), old, v)
}

// Plain accesses are ordered by the atomic access to the first word of a slot: they come
// before the store that publishes the slot and after the load that sees it.

func (m words) plain32(offset uintptr) *uint32 { return (*uint32)(unsafe.Add(m.base, offset)) }
func (m words) plain64(offset uintptr) *uint64 { return (*uint64)(unsafe.Add(m.base, offset)) }

// at returns the memory from an offset on.
func (m words) at(offset uintptr) words { return words{unsafe.Add(m.base, offset)} }

func (m words) slice(offset uintptr, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, offset)), n)
}

// copyShort copies a few bytes, eight at a time, for two reasons: the source was often just
// written in words, or the target is about to be read in words. A load that is wider than
// the store it reads from cannot be forwarded and waits until the store reaches the cache.
func copyShort(to, from words, n uint64) {
	t, f := to.base, from.base
	for ; n >= 32; n -= 32 {
		a, b := *(*uint64)(f), *(*uint64)(unsafe.Add(f, 8))
		c, d := *(*uint64)(unsafe.Add(f, 16)), *(*uint64)(unsafe.Add(f, 24))
		*(*uint64)(t), *(*uint64)(unsafe.Add(t, 8)) = a, b
		*(*uint64)(unsafe.Add(t, 16)), *(*uint64)(unsafe.Add(t, 24)) = c, d
		t, f = unsafe.Add(t, 32), unsafe.Add(f, 32)
	}
	if n&16 != 0 {
		a, b := *(*uint64)(f), *(*uint64)(unsafe.Add(f, 8))
		*(*uint64)(t), *(*uint64)(unsafe.Add(t, 8)) = a, b
		t, f = unsafe.Add(t, 16), unsafe.Add(f, 16)
	}
	if n&8 != 0 {
		*(*uint64)(t) = *(*uint64)(f)
		t, f = unsafe.Add(t, 8), unsafe.Add(f, 8)
	}
	for i := range n & 7 {
		*(*byte)(unsafe.Add(t, i)) = *(*byte)(unsafe.Add(f, i))
	}
}

// addressOf returns the address of memory in this process.
func addressOf(memory []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

// wordsAt returns the memory of an inline request, which need not be registered. The caller
// must own it, as with verbs.
func wordsAt(address uint64) words {
	p := uintptr(address)
	return words{*(*unsafe.Pointer)(unsafe.Pointer(&p))}
}

// wordsOf returns memory as words. The caller keeps within its length.
func wordsOf(memory []byte) words { return words{unsafe.Pointer(unsafe.SliceData(memory))} }
