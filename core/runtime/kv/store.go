package kv

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Store holds the entries of one daemon. It belongs to one thread.
//
// It is a hash table with linear probing, at most half full, whose slots lie in
// one anonymous mapping off the Go heap, so that the collector neither scans
// nor counts them. A slot is a prefix and an entry, which is the response to a
// GET as it goes out:
//
//	bytes 0-3    length of the entry, 0 for a free slot
//	bytes 16-31  header: key<<8, version, checksum
//	bytes 32-    value
//
// The prefix keeps entries aligned to 16 bytes. Slots are a whole number of
// cache lines, and one where values have 32 bytes or fewer, so that a lookup
// costs one miss. Keys are never removed, hence no tombstones.
type Store struct {
	// VerifyEvery is how many PUTs pass for each whose checksum is verified
	// before it is stored: 1, as NewStore sets it, verifies all; it must not
	// be less. It may be changed between two calls of Serve.
	VerifyEvery int
	verifyIn    int // PUTs until the next verification

	memory   []byte
	stride   uint64 // bytes of a slot
	mask     uint64 // slots - 1
	shift    uint   // 64 - log2(slots)
	maxValue int
	used     int
	capacity int
	resized  bool // see Resized
}

const (
	prefixSize = 16
	cacheLine  = 64

	addressBits = 47 // what a process can map

	fibonacci = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
)

// NewStore maps memory for capacity keys with values of up to maxValue bytes;
// pages are taken when Fill touches them. The caller must Close it.
func NewStore(capacity, maxValue int) (*Store, error) {
	if capacity < 1 || maxValue < 0 {
		return nil, fmt.Errorf("kv: making a store of %d keys with values of %d bytes: "+
			"at least one key and no negative size are needed", capacity, maxValue)
	}
	width := bits.Len64(2*uint64(capacity) - 1)
	slots := uint64(1) << width
	stride := (uint64(maxValue) + prefixSize + HeaderSize + cacheLine - 1) &^ (cacheLine - 1)
	overflow, size := bits.Mul64(slots, stride)
	if width > addressBits || overflow != 0 || size > 1<<addressBits {
		return nil, fmt.Errorf("kv: a store of %d keys with values of %d bytes exceeds the address space: "+
			"use fewer keys or smaller values", capacity, maxValue)
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("kv: mapping %d MiB for %d keys with values of %d bytes: %w: "+
			"use fewer keys or smaller values", size>>20, capacity, maxValue, err)
	}
	return &Store{
		VerifyEvery: 1, verifyIn: 1,
		memory: memory, stride: stride, mask: slots - 1, shift: uint(64 - width),
		maxValue: maxValue, capacity: capacity,
	}, nil
}

// Close unmaps the memory. Whatever Serve has returned must not be touched any
// more, and Serve and Fill must not be called. It is idempotent.
func (s *Store) Close() error {
	if s.memory == nil {
		return nil
	}
	memory := s.memory
	s.memory = nil
	if err := unix.Munmap(memory); err != nil {
		return fmt.Errorf("kv: unmapping a store: %w", err)
	}
	return nil
}

// Fill puts key into the store, at version 1 and with a value of size bytes
// that follows from the key. A key that is there already starts again. The
// error says that the key or the size is out of range, or the store full.
func (s *Store) Fill(key uint64, size int) error {
	if key > MaxKey {
		return fmt.Errorf("kv: filling key %d: the largest is %d", key, uint64(MaxKey))
	}
	if size < 0 || size > s.maxValue {
		return fmt.Errorf("kv: filling key %d with %d bytes: the store was made for %d", key, size, s.maxValue)
	}
	at, found := s.find(key << 8)
	if !found {
		if s.used == s.capacity {
			return fmt.Errorf("kv: filling key %d: the store was made for %d keys and has them", key, s.capacity)
		}
		s.used++
	}
	length := HeaderSize + size
	if found && s.length(at) != length {
		s.resized = true
	}
	s.setLength(at, length)
	entry := s.entry(at, length)
	value := entry[HeaderSize:]
	fill(value, mix(key^seedA, seedB))
	putHeader(entry, key<<8|statusOK, 1, checksum(value, key))
	return nil
}

// Len returns how many keys the store has.
func (s *Store) Len() int { return s.used }

// find returns where the slot is of the key whose entry begins with first, or
// the free slot where it would go.
func (s *Store) find(first uint64) (at uint64, found bool) {
	// It ends, since half of the slots at the least are free. The hash is
	// Fibonacci's: keys that follow each other, which is what a workload has,
	// are spread with hardly a collision, so that the loop is predicted.
	for slot := (first >> 8) * fibonacci >> s.shift; ; slot = (slot + 1) & s.mask {
		at = slot * s.stride
		if s.length(at) == 0 {
			return at, false
		}
		if binary.LittleEndian.Uint64(s.memory[at+prefixSize:]) == first {
			return at, true
		}
	}
}

func (s *Store) length(at uint64) int { return int(binary.LittleEndian.Uint32(s.memory[at:])) }

func (s *Store) setLength(at uint64, length int) {
	binary.LittleEndian.PutUint32(s.memory[at:], uint32(length))
}

func (s *Store) entry(at uint64, length int) []byte {
	end := at + prefixSize + uint64(length)
	return s.memory[at+prefixSize : end : end]
}
