package ring

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"transportbench/core/fabric/shm"
)

// memory accesses shared bytes as words. Offsets are not checked: they come from a layout
// and are in bounds for its geometry.
type memory struct {
	bytes []byte // keeps the memory of a heap-backed ring alive
	base  unsafe.Pointer
}

func newMemory(b []byte, need int) (memory, error) {
	if len(b) < need {
		return memory{}, fmt.Errorf("ring of %d bytes does not fit into %d bytes of memory",
			need, len(b))
	}
	base := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(base)%SlotSize != 0 {
		return memory{}, fmt.Errorf("ring memory is not aligned to %d bytes", SlotSize)
	}
	return memory{bytes: b, base: base}, nil
}

func (m memory) load32(offset uintptr) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Add(m.base, offset)))
}

func (m memory) storeRelease32(offset uintptr, v uint32) {
	shm.StoreRelease32((*uint32)(unsafe.Add(m.base, offset)), v)
}

func (m memory) load64(offset uintptr) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(m.base, offset)))
}

func (m memory) storeRelease64(offset uintptr, v uint64) {
	shm.StoreRelease64((*uint64)(unsafe.Add(m.base, offset)), v)
}

// The plain accesses are ordered by an atomic access to a flag or an index: they come
// before the store that publishes and after the load that sees it.

func (m memory) plain32(offset uintptr) *uint32 { return (*uint32)(unsafe.Add(m.base, offset)) }
func (m memory) plain64(offset uintptr) *uint64 { return (*uint64)(unsafe.Add(m.base, offset)) }

func (m memory) slice(offset uintptr, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.base, offset)), n)
}

// inline returns the payload of n bytes in a slot. n is at most InlineSize.
func (m memory) inline(slot uintptr, n int) []byte {
	return (*[InlineSize]byte)(unsafe.Add(m.base, slot+payloadOffset))[:n:n]
}

// copyWide copies a payload of more than InlineSize bytes into a wide slot, with moves that may
// overlap. The end comes first, because the consumer looks at the first line.
func (m memory) copyWide(offset uintptr, payload []byte) {
	const move = 16
	to, from, last := unsafe.Add(m.base, offset), unsafe.Pointer(unsafe.SliceData(payload)),
		len(payload)-move
	*(*[move]byte)(unsafe.Add(to, last)) = *(*[move]byte)(unsafe.Add(from, last))
	for at := (last - 1) &^ (move - 1); at >= 0; at -= move {
		*(*[move]byte)(unsafe.Add(to, at)) = *(*[move]byte)(unsafe.Add(from, at))
	}
}

// copyInline copies at most InlineSize bytes. For the usual lengths it is a few moves, which may
// overlap, instead of a call of memmove, which takes longer to find out the length.
func (m memory) copyInline(offset uintptr, payload []byte) {
	const move = 16
	to, from, n := unsafe.Add(m.base, offset), unsafe.Pointer(unsafe.SliceData(payload)),
		len(payload)
	if n < move {
		copy(unsafe.Slice((*byte)(to), move), payload)
		return
	}
	*(*[move]byte)(to) = *(*[move]byte)(from)
	if n > 2*move {
		*(*[move]byte)(unsafe.Add(to, move)) = *(*[move]byte)(unsafe.Add(from, move))
	}
	*(*[move]byte)(unsafe.Add(to, n-move)) = *(*[move]byte)(unsafe.Add(from, n-move))
}
