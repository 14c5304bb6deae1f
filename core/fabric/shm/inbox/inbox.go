package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"sync/atomic"

	"transportbench/core/fabric/shm"
)

// The layout of an inbox, in bytes. Words that different sides write are two
// cache lines apart.
const (
	inboxMagic = 0x7462_7368_6d00_0001 // "tbshm", layout 1

	magicOffset    = 0   // u64
	nonceOffset    = 8   // u64: tells this inbox from every other
	ringsOffset    = 16  // u64
	identityOffset = 24  // u64: of the settings that lay out the rings
	sequenceOffset = 128 // u32: grows with every bell; the word to park on
	waitingOffset  = 256 // u32: 1 while the owner parks
	bitmapOffset   = 512 // u64 each: rings whose producer rang
	headerSize     = 4096

	// Within a ring's region.
	claimOffset  = 0   // u64: nonce of the producer's own inbox; 0 is free
	armedOffset  = 128 // u32: 1 asks the producer to ring the bell
	closedOffset = 256 // u32: 1 when the producer has closed
	probeOffset  = 384 // u64: the line of the floor probe
	ringOffset   = 512
	pageSize     = 4096
)

func regionSize(s settings) int {
	return (ringOffset + s.bytes() + pageSize - 1) &^ (pageSize - 1)
}

// inbox is one worker's segment, seen by its owner or by a peer.
type inbox struct {
	segment *shm.Segment
	nonce   uint64
	region  int
	regions []byte // after the header
	bell    bell
}

// bell is how producers of armed rings reach an inbox's owner.
type bell struct {
	sequence *atomic.Uint32
	waiting  *atomic.Uint32
	bitmap   []*atomic.Uint64
}

// address is what Worker.Address encodes.
type address struct {
	Boot  string  `json:"boot"` // the kernel's boot id: which host
	PID   int     `json:"pid"`
	Nonce uint64  `json:"nonce"`
	Ref   shm.Ref `json:"ref"`
}

// fingerprint is one word for the identity.
func (s *settings) fingerprint() uint64 {
	kind, slots, arena := s.identity()
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d", kind, slots, arena)
	return h.Sum64()
}

func createInbox(s settings) (*inbox, error) {
	size := headerSize + s.peers*regionSize(s)
	segment, err := shm.Create("transportbench", size, s.backing)
	if err != nil {
		return nil, err
	}
	m := segment.Bytes()
	nonce := rand.Uint64() | 1
	shm.Word64(m, magicOffset).Store(inboxMagic)
	shm.Word64(m, nonceOffset).Store(nonce)
	shm.Word64(m, ringsOffset).Store(uint64(s.peers))
	shm.Word64(m, identityOffset).Store(s.fingerprint())
	in := newInbox(segment, nonce, s)
	for i := range s.peers {
		in.word32(i, armedOffset).Store(1)
	}
	return in, nil
}

// openInbox maps a peer's inbox and checks that it is the one that the address
// names and has the geometry that this side has.
func openInbox(a address, s settings) (*inbox, error) {
	segment, err := shm.Open(a.Ref)
	if err != nil {
		return nil, err
	}
	if err := checkInbox(segment.Bytes(), a, s); err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	s.peers = int(shm.Word64(segment.Bytes(), ringsOffset).Load())
	if s.peers < 1 || s.peers > MaxPeers || headerSize+s.peers*regionSize(s) != len(segment.Bytes()) {
		return nil, errors.Join(fmt.Errorf("peer's inbox has %d rings, which does not fit its size", s.peers), segment.Close())
	}
	return newInbox(segment, a.Nonce, s), nil
}

func checkInbox(m []byte, a address, s settings) error {
	if len(m) < headerSize || shm.Word64(m, magicOffset).Load() != inboxMagic || shm.Word64(m, nonceOffset).Load() != a.Nonce {
		return errors.New("peer's inbox is gone, or was made by another version")
	}
	if shm.Word64(m, identityOffset).Load() != s.fingerprint() {
		kind, slots, arena := s.identity()
		return fmt.Errorf("peer was opened with other options than ring %s, %d slots, arena %d: open all ranks with the same", kind, slots, arena)
	}
	return nil
}

func newInbox(segment *shm.Segment, nonce uint64, s settings) *inbox {
	m := segment.Bytes()
	in := &inbox{
		segment: segment, nonce: nonce, region: regionSize(s), regions: m[headerSize:],
		bell: bell{sequence: shm.Word32(m, sequenceOffset), waiting: shm.Word32(m, waitingOffset)},
	}
	for i := 0; i < s.peers; i += 64 {
		in.bell.bitmap = append(in.bell.bitmap, shm.Word64(m, bitmapOffset+i/8))
	}
	return in
}

func (in *inbox) rings() int { return len(in.regions) / in.region }

func (in *inbox) word32(i, offset int) *atomic.Uint32 {
	return shm.Word32(in.regions, i*in.region+offset)
}

func (in *inbox) word64(i, offset int) *atomic.Uint64 {
	return shm.Word64(in.regions, i*in.region+offset)
}

// memory is where ring i lies.
func (in *inbox) memory(i int) []byte {
	return in.regions[i*in.region+ringOffset : (i+1)*in.region]
}

// claim takes a free ring for the producer whose own inbox has that nonce. The
// one that takes the last removes the segment's name.
func (in *inbox) claim(nonce uint64) (index int, err error) {
	n := in.rings()
	index = -1
	for i := range n {
		if in.word64(i, claimOffset).CompareAndSwap(0, nonce) {
			index = i
			break
		}
	}
	if index < 0 {
		return 0, fmt.Errorf("all %d rings of the peer's inbox are taken", n)
	}
	if index == n-1 {
		err = in.segment.Unlink()
	}
	return index, err
}

// find returns the ring that a producer claimed.
func (in *inbox) find(nonce uint64) (index int, ok bool) {
	for i := range in.rings() {
		if in.word64(i, claimOffset).Load() == nonce {
			return i, true
		}
	}
	return 0, false
}

// ring tells the owner of ring i's inbox to look at it.
func (b *bell) ring(i int) {
	b.bitmap[i/64].Or(1 << (i % 64))
	b.wake()
}

// wake ends the owner's Wait, now or the next.
func (b *bell) wake() {
	b.sequence.Add(1)
	// Pairs with the owner's store of waiting before it looks at sequence: it
	// sees the new number, or this sees it waiting.
	if b.waiting.Load() != 0 {
		shm.FutexWake(b.sequence)
	}
}

func (w *worker) encodeAddress() ([]byte, error) {
	return json.Marshal(address{Boot: shm.BootID(), PID: os.Getpid(), Nonce: w.inbox.nonce, Ref: w.inbox.segment.Ref()})
}

func decodeAddress(b []byte) (address, error) {
	var a address
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("not an address of this transport: %w", err)
	}
	if boot := shm.BootID(); a.Boot != boot {
		return a, errors.New("peer is on another host, and shared memory reaches one host only")
	}
	return a, nil
}
