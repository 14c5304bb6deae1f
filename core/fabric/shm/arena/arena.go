package arena

import (
	"errors"
	"fmt"
	"math/bits"

	"transportbench/core/fabric/shm"
)

// Errors of an arena.
var (
	// ErrFull means that no block of that size is free. Nothing was allocated.
	ErrFull = errors.New("the arena has no room for the block")
	// ErrNotAllocated means that the block is free already, or another owner's.
	ErrNotAllocated = errors.New("the block is not allocated by this owner")
	// ErrCorrupt means that the memory holds something that no correct process writes.
	ErrCorrupt = errors.New("the arena is corrupt")
)

// The layout of an arena, in bytes from its start. Words that are written often are two cache lines
// apart, because processors prefetch adjacent lines in pairs.
const (
	magicOffset  = 0   // u64
	shapeOffset  = 8   // u64: number of block entries
	usedOffset   = 128 // u64: entries in use <<32 | units in use
	listsOffset  = 256 // listSize for each class: u64 change count <<32 | first entry
	listSize     = 128
	classes      = 31                             // of 64 B to 64 GiB
	tableOffset  = listsOffset + classes*listSize // entrySize for each block
	entrySize    = 32
	stateOffset  = 0  // u64: owner <<32 | class <<8 | state
	nextOffset   = 8  // u32: the next entry of a free list
	placeOffset  = 16 // u64: units from the start of the blocks
	magic        = 0x74_62_61_72_65_6e_61_31
	unitShift    = 6
	unit         = 1 << unitShift // alignment of blocks, and the least size
	blockPadding = 4096
)

// The states of an entry. An entry that nobody has completed is zero.
const (
	stateFree      = 1
	stateAllocated = 2
)

// Block is an allocated block.
type Block struct {
	ID   uint32
	Size int // as asked for
}

// Arena is one process's, or thread's, view of an arena. Its methods are safe for concurrent use.
type Arena struct {
	memory  []byte
	owner   uint32
	entries uint32
	blocks  []byte
}

// Overhead returns how many bytes an arena needs besides those of its blocks.
func Overhead(blocks int) int {
	return (tableOffset + blocks*entrySize + blockPadding - 1) &^ (blockPadding - 1)
}

// Create makes an arena in memory, which must be all zero and aligned to a cache line, for that
// many blocks at most. owner is a number, not 0, that identifies this process: only the owner of a
// block frees it.
func Create(memory []byte, blocks int, owner uint32) (*Arena, error) {
	if blocks < 1 || blocks > 1<<30 || len(memory) < Overhead(blocks)+unit {
		return nil,
			fmt.Errorf("arena for %d blocks in %d bytes: want at least 1 block and %d bytes",
				blocks, len(memory), Overhead(max(blocks, 1))+unit)
	}
	shm.Word64(memory, shapeOffset).Store(uint64(blocks))
	shm.Word64(memory, magicOffset).Store(magic) // pairs with the load in Open
	return Open(memory, owner)
}

// Open returns a view of the arena in memory that another process, or this one, has created.
func Open(memory []byte, owner uint32) (*Arena, error) {
	if owner == 0 {
		return nil, errors.New("opening an arena: owner 0 stands for none")
	}
	if len(memory) < tableOffset || shm.Word64(memory, magicOffset).Load() != magic {
		return nil, fmt.Errorf("opening an arena: %w: the memory holds none", ErrCorrupt)
	}
	entries := shm.Word64(memory, shapeOffset).Load()
	if entries < 1 || entries > 1<<30 || len(memory) < Overhead(int(entries)) {
		return nil, fmt.Errorf("opening an arena: %w: %d blocks do not fit into %d bytes",
			ErrCorrupt, entries, len(memory))
	}
	return &Arena{memory: memory, owner: owner, entries: uint32(entries),
		blocks: memory[Overhead(int(entries)):]}, nil
}

// classOf returns the size class of a block: its size is unit<<class.
func classOf(size int) int { return bits.Len(uint(max(size, 1)-1) >> unitShift) }

// Allocate returns a block of at least size bytes, aligned to a cache line. Its contents are
// undefined. The error is ErrFull or ErrCorrupt.
func (a *Arena) Allocate(size int) (Block, error) {
	class := classOf(size)
	if size < 0 || class >= classes {
		return Block{}, ErrFull
	}
	id, err := a.take(class)
	if err == nil && id == 0 {
		id, err = a.grow(class)
	}
	return Block{ID: id, Size: size}, err
}

// take pops an entry from the list of a class; 0 if it is empty. The change count in the list's
// head keeps a head from being mistaken for an earlier one with the same entry.
func (a *Arena) take(class int) (uint32, error) {
	head := shm.Word64(a.memory, listsOffset+class*listSize)
	for {
		old := head.Load()
		id := uint32(old)
		if id == 0 {
			return 0, nil
		}
		if id > a.entries {
			return 0, ErrCorrupt
		}
		next := shm.Word32(a.memory, entry(id)+nextOffset).Load()
		if !head.CompareAndSwap(old, (old>>32+1)<<32|uint64(next)) {
			continue
		}
		// A process that dies here loses the block.
		state := shm.Word64(a.memory, entry(id)+stateOffset)
		if !state.CompareAndSwap(word(0, class, stateFree), word(a.owner, class, stateAllocated)) {
			return 0, ErrCorrupt
		}
		return id, nil
	}
}

// grow takes a new entry and memory that was never used.
func (a *Arena) grow(class int) (uint32, error) {
	used := shm.Word64(a.memory, usedOffset)
	for {
		old := used.Load()
		entries, units := uint32(old>>32), uint64(uint32(old))
		need := uint64(1) << class
		if entries >= a.entries || units+need > uint64(len(a.blocks)>>unitShift) ||
			units+need > 1<<32-1 {
			return 0, ErrFull
		}
		if !used.CompareAndSwap(old, uint64(entries+1)<<32|(units+need)) {
			continue
		}
		// A process that dies here loses the memory: the entry stays zero.
		id := entries + 1
		shm.Word64(a.memory, entry(id)+placeOffset).Store(units)
		shm.Word64(a.memory, entry(id)+stateOffset).Store(word(a.owner, class, stateAllocated))
		return id, nil
	}
}

// Free returns a block that this owner has allocated. The error is ErrNotAllocated or ErrCorrupt.
func (a *Arena) Free(b Block) error {
	id := b.ID
	if id == 0 || id > a.entries {
		return ErrNotAllocated
	}
	state := shm.Word64(a.memory, entry(id)+stateOffset)
	old := state.Load()
	class := int(old >> 8 & 0xff)
	switch {
	case old != word(a.owner, class, stateAllocated):
		return ErrNotAllocated
	case class >= classes:
		return ErrCorrupt
	case !state.CompareAndSwap(old, word(0, class, stateFree)):
		return ErrNotAllocated // somebody else freed it meanwhile
	}
	// A process that dies here loses the block.
	head := shm.Word64(a.memory, listsOffset+class*listSize)
	next := shm.Word32(a.memory, entry(id)+nextOffset)
	for {
		old := head.Load()
		next.Store(uint32(old))
		if head.CompareAndSwap(old, (old>>32+1)<<32|uint64(id)) {
			return nil
		}
	}
}

// entry returns the offset of an entry. Entries are counted from 1.
func entry(id uint32) int { return tableOffset + int(id-1)*entrySize }

func word(owner uint32, class int, state uint64) uint64 {
	return uint64(owner)<<32 | uint64(class)<<8 | state
}
