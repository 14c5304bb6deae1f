package kv

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Store has the entries of one daemon. It belongs to one thread.
//
// It is a hash table with linear probing that is at most half full. Its buckets are in one
// anonymous mapping off the Go heap, so that the collector neither scans nor counts them. A bucket
// is a prefix and an entry, which is the response to a GET:
//
//	bytes 0-3    length of the entry, 0 if the bucket is free
//	bytes 16-31  header: key<<8, version, checksum
//	bytes 32-    value
//
// The prefix aligns entries to 16 bytes. A bucket is a whole number of cache lines, one for values
// of up to 32 bytes, so that a lookup costs one cache miss. Keys are never removed, so there are no
// tombstones.
type Store struct {
	// VerifyEvery is the sampling of checksums: one of VerifyEvery PUTs is verified before it is
	// stored. NewStore sets it to 1, the smallest valid value. It may be changed between two
	// calls of Serve.
	VerifyEvery int
	verifyIn    int // PUTs until the next verification

	memory   []byte
	stride   uint64 // bytes of a bucket
	mask     uint64 // buckets - 1
	shift    uint   // 64 - log2(buckets)
	maxValue int
	used     int
	capacity int
	resized  bool // see Resized
	work     Work
}

const (
	prefixSize = 16
	cacheLine  = 64

	addressBits = 47 // of the address space of a process

	fibonacci = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
)

// NewStore maps memory for capacity keys with values of up to maxValue bytes. Fill touches the
// pages. The caller must Close the store.
func NewStore(capacity, maxValue int) (*Store, error) {
	if capacity < 1 || maxValue < 0 {
		return nil, fmt.Errorf("kv: making a store of %d keys with values of %d bytes: "+
			"it needs at least one key and a size of 0 or more", capacity, maxValue)
	}
	width := bits.Len64(2*uint64(capacity) - 1)
	buckets := uint64(1) << width
	stride := (uint64(maxValue) + prefixSize + HeaderSize + cacheLine - 1) &^ (cacheLine - 1)
	overflow, size := bits.Mul64(buckets, stride)
	if width > addressBits || overflow != 0 || size > 1<<addressBits {
		return nil,
			fmt.Errorf("kv: a store of %d keys with values of %d bytes exceeds the address space: "+
				"use fewer keys or smaller values", capacity, maxValue)
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("kv: mapping %d MiB for %d keys with values of %d bytes: %w: "+
			"use fewer keys or smaller values", size>>20, capacity, maxValue, err)
	}
	return &Store{
		VerifyEvery: 1, verifyIn: 1,
		memory: memory, stride: stride, mask: buckets - 1, shift: uint(64 - width),
		maxValue: maxValue, capacity: capacity,
	}, nil
}

// Close unmaps the memory. Responses of Serve are invalid afterwards, and Serve and Fill must not
// be called. Close is idempotent.
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

// Fill puts key into the store at version 1, or resets it if it is already there. Its value has
// size bytes and depends on the key. Fill returns an error if the key or the size is out of range
// or the store is full.
func (s *Store) Fill(key uint64, size int) error {
	if key > MaxKey {
		return fmt.Errorf("kv: filling key %d: the largest key is %d", key, uint64(MaxKey))
	}
	if size < 0 || size > s.maxValue {
		return fmt.Errorf("kv: filling key %d with %d bytes: the store was made for %d", key, size,
			s.maxValue)
	}
	at, found := s.find(key << 8)
	if !found {
		if s.used == s.capacity {
			return fmt.Errorf("kv: filling key %d: the store was made for %d keys and is full", key,
				s.capacity)
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

// Len returns the number of keys in the store.
func (s *Store) Len() int { return s.used }

// find returns the offset of the bucket whose entry starts with first, or of the free bucket in
// which such an entry would go.
func (s *Store) find(first uint64) (at uint64, found bool) {
	// The loop ends because at least half of the buckets are free. Fibonacci hashing spreads
	// consecutive keys, which a workload has, almost without collisions, so the branches are
	// predicted.
	for bucket := (first >> 8) * fibonacci >> s.shift; ; bucket = (bucket + 1) & s.mask {
		at = bucket * s.stride
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
