package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/shm"
)

// Errors of an index.
var (
	// ErrFull means that there is no entry left for the name.
	ErrFull = errors.New("the index is full")
	// ErrName means that the name is empty or longer than MaxName.
	ErrName = fmt.Errorf("a name of an index has 1 to %d bytes", MaxName)
)

// The layout of an index: entries of entrySize bytes.
const (
	entrySize   = 64
	stateOffset = 0 // u64: uses of the entry <<32 | hash; the hash is 0 for none
	valueOffset = 8 // u64
	nameOffset  = 16
	nameWords   = (entrySize - nameOffset) / 8

	// MaxName is the longest name. The first byte of an entry's name is its length.
	MaxName = nameWords*8 - 1
)

// The hashes that no name has.
const (
	hashNone    = 0 // never used: a search ends here
	hashDeleted = 1
)

// Bytes returns how much memory an index for that many names takes. A quarter of the entries or
// more is always empty, so that searches are short.
func Bytes(names int) int { return entriesFor(names) * entrySize }

func entriesFor(names int) int { return pow2.Ceil(max(names, 1)*4/3 + 1) }

// Index is one process's view of an index. Get is safe for concurrent use; Put and Delete are for
// one writer at a time.
type Index struct {
	memory []byte
	mask   uint64
	most   int // names that there may be
	used   int // names that there are, as far as this writer knows
}

// New returns a view of the index in memory, which is all zero at first and aligned to a cache
// line. names is the same in all processes.
func New(memory []byte, names int) (*Index, error) {
	if names < 1 || names > 1<<30 || len(memory) < Bytes(names) {
		return nil, fmt.Errorf("index of %d names in %d bytes: want at least 1 name and %d bytes",
			names, len(memory), Bytes(max(names, 1)))
	}
	entries := entriesFor(names)
	x := &Index{memory: memory, mask: uint64(entries - 1), most: entries * 3 / 4}
	for i := range entries {
		if uint32(x.load(uint64(i), stateOffset)) > hashDeleted {
			x.used++
		}
	}
	return x, nil
}

func (x *Index) load(entry uint64, offset int) uint64 {
	return shm.Word64(x.memory, int(entry)*entrySize+offset).Load()
}

func (x *Index) store(entry uint64, offset int, v uint64) {
	shm.Word64(x.memory, int(entry)*entrySize+offset).Store(v)
}

// words is a name as an entry has it.
type words [nameWords]uint64

func wordsOf(name string) (w words, err error) {
	if len(name) < 1 || len(name) > MaxName {
		return w, ErrName
	}
	var b [nameWords * 8]byte
	b[0] = byte(len(name))
	copy(b[1:], name)
	for i := range w {
		w[i] = binary.NativeEndian.Uint64(b[i*8:])
	}
	return w, nil
}

// hash returns the hash of a name, which all processes compute alike. It is that of wyhash's mixing
// step, word by word.
func (w *words) hash() uint32 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range w {
		high, low := bits.Mul64(h^v, 0xa0761d6478bd642f)
		h = high ^ low
	}
	return max(uint32(h^h>>32), hashDeleted+1)
}

// find returns the entry of a name and its state; ok is false if it is absent. It reads each
// entry's name only if the hashes agree, and again if the entry changed meanwhile.
func (x *Index) find(w *words, hash uint32) (entry, state, value uint64, ok bool) {
	for probe := uint64(0); probe <= x.mask; probe++ {
		entry = (uint64(hash) + probe) & x.mask
		for {
			state = x.load(entry, stateOffset) // pairs with the store in Put
			if uint32(state) != hash {
				break
			}
			same := true
			for i := range w {
				if x.load(entry, nameOffset+8*i) != w[i] {
					same = false
					break
				}
			}
			value = x.load(entry, valueOffset)
			if x.load(entry, stateOffset) != state {
				continue // it was used for another name
			}
			if same {
				return entry, state, value, true
			}
			break
		}
		if uint32(state) == hashNone {
			break
		}
	}
	return 0, 0, 0, false
}

// Get returns the value of a name.
func (x *Index) Get(name string) (value uint64, ok bool) {
	w, err := wordsOf(name)
	if err != nil {
		return 0, false
	}
	_, _, value, ok = x.find(&w, w.hash())
	return value, ok
}

// Put sets the value of a name. The error is ErrFull or ErrName.
func (x *Index) Put(name string, value uint64) error {
	w, err := wordsOf(name)
	if err != nil {
		return err
	}
	hash := w.hash()
	if entry, _, _, ok := x.find(&w, hash); ok {
		x.store(entry, valueOffset, value)
		return nil
	}
	if x.used >= x.most {
		return ErrFull
	}
	entry, state := uint64(hash)&x.mask, uint64(0)
	for ; ; entry = (entry + 1) & x.mask { // an entry is free, because most is less than all
		if state = x.load(entry, stateOffset); uint32(state) <= hashDeleted {
			break
		}
	}
	for i := range w {
		x.store(entry, nameOffset+8*i, w[i])
	}
	x.store(entry, valueOffset, value)
	x.store(entry, stateOffset, (state>>32+1)<<32|uint64(hash)) // pairs with the load in find
	x.used++
	return nil
}

// Delete removes a name, and reports whether it was there.
func (x *Index) Delete(name string) bool {
	w, err := wordsOf(name)
	if err != nil {
		return false
	}
	entry, state, _, ok := x.find(&w, w.hash())
	if !ok {
		return false
	}
	x.store(entry, stateOffset, (state>>32+1)<<32|hashDeleted)
	x.used--
	x.clean(entry)
	return true
}

// clean makes deleted entries empty again if the next one is empty: no search has to go on behind
// them.
func (x *Index) clean(entry uint64) {
	if uint32(x.load((entry+1)&x.mask, stateOffset)) != hashNone {
		return
	}
	for range x.mask {
		state := x.load(entry, stateOffset)
		if uint32(state) != hashDeleted {
			return
		}
		x.store(entry, stateOffset, (state>>32+1)<<32|hashNone)
		entry = (entry - 1) & x.mask
	}
}
