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

// The layout of an inbox, in bytes; the package comment shows a diagram. Words that
// different sides write are two cache lines apart.
const (
	inboxMagic = 0x7462_7368_6d00_0001 // "tbshm", layout 1

	magicOffset       = 0   // u64
	nonceOffset       = 8   // u64: random, identifies this inbox
	regionsOffset     = 16  // u64: number of regions
	fingerprintOffset = 24  // u64: see settings.fingerprint
	sequenceOffset    = 128 // u32: grows with every wake; the owner sleeps on it
	sleepingOffset    = 256 // u32: 1 while the owner sleeps
	bitmapOffset      = 512 // u64 each: regions whose producer has notified
	headerSize        = 4096

	// Within a region.
	claimOffset  = 0   // u64: nonce of the producer's own inbox; 0 if the region is free
	armedOffset  = 128 // u32: 1 asks the producer to notify
	closedOffset = 256 // u32: 1 once the producer has closed
	ringOffset   = 512
	pageSize     = 4096
)

func regionSize(s settings) int {
	return (ringOffset + s.bytes() + pageSize - 1) &^ (pageSize - 1)
}

// inbox is a mapping of one worker's segment, by its owner or by a peer.
type inbox struct {
	segment  *shm.Segment
	nonce    uint64
	size     int    // of a region
	regions  []byte // after the header
	notifier notifier
}

// notifier lets the producers of armed rings notify the owner of an inbox.
type notifier struct {
	sequence *atomic.Uint32
	sleeping *atomic.Uint32
	bitmap   []*atomic.Uint64
}

// address is the content of Worker.Address, as JSON.
type address struct {
	Boot  string  `json:"boot"` // the kernel's boot ID, which identifies the host
	PID   int     `json:"pid"`
	Nonce uint64  `json:"nonce"`
	Ref   shm.Ref `json:"ref"`
}

// fingerprint returns a hash of the identity.
func (s *settings) fingerprint() uint64 {
	kind, slots, slotSize, arena := s.identity()
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d %d", kind, slots, slotSize, arena)
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
	shm.Word64(m, regionsOffset).Store(uint64(s.peers))
	shm.Word64(m, fingerprintOffset).Store(s.fingerprint())
	in := newInbox(segment, nonce, s)
	for i := range s.peers {
		in.word32(i, armedOffset).Store(1)
	}
	return in, nil
}

// openInbox maps a peer's inbox. It checks that the inbox is the one in the address and has
// the same geometry as this side.
func openInbox(a address, s settings) (*inbox, error) {
	segment, err := shm.Open(a.Ref)
	if err != nil {
		return nil, err
	}
	if err := checkInbox(segment.Bytes(), a, s); err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	s.peers = int(shm.Word64(segment.Bytes(), regionsOffset).Load())
	if s.peers < 1 || s.peers > MaxPeers ||
		headerSize+s.peers*regionSize(s) != len(segment.Bytes()) {
		return nil,
			errors.Join(
				fmt.Errorf("the peer's inbox claims %d regions, which does not match its size",
					s.peers), segment.Close())
	}
	return newInbox(segment, a.Nonce, s), nil
}

func checkInbox(m []byte, a address, s settings) error {
	if len(m) < headerSize || shm.Word64(m, magicOffset).Load() != inboxMagic ||
		shm.Word64(m, nonceOffset).Load() != a.Nonce {
		return errors.New("the peer's inbox is gone, or was made by another version")
	}
	if shm.Word64(m, fingerprintOffset).Load() != s.fingerprint() {
		kind, slots, slotSize, arena := s.identity()
		return fmt.Errorf("the peer was opened with other options than ring %s, %d slots of %d "+
			"bytes, arena %d: open all ranks with the same options", kind, slots, slotSize, arena)
	}
	return nil
}

func newInbox(segment *shm.Segment, nonce uint64, s settings) *inbox {
	m := segment.Bytes()
	in := &inbox{
		segment: segment, nonce: nonce, size: regionSize(s), regions: m[headerSize:],
		notifier: notifier{sequence: shm.Word32(m, sequenceOffset),
			sleeping: shm.Word32(m, sleepingOffset)},
	}
	for i := 0; i < s.peers; i += 64 {
		in.notifier.bitmap = append(in.notifier.bitmap, shm.Word64(m, bitmapOffset+i/8))
	}
	return in
}

func (in *inbox) count() int { return len(in.regions) / in.size }

func (in *inbox) word32(i, offset int) *atomic.Uint32 {
	return shm.Word32(in.regions, i*in.size+offset)
}

func (in *inbox) word64(i, offset int) *atomic.Uint64 {
	return shm.Word64(in.regions, i*in.size+offset)
}

// memory returns the memory of the ring in region i.
func (in *inbox) memory(i int) []byte {
	return in.regions[i*in.size+ringOffset : (i+1)*in.size]
}

// claim takes a free region for the producer whose own inbox has this nonce. The
// producer that takes the last region unlinks the segment.
func (in *inbox) claim(nonce uint64) (index int, err error) {
	n := in.count()
	index = -1
	for i := range n {
		if in.word64(i, claimOffset).CompareAndSwap(0, nonce) {
			index = i
			break
		}
	}
	if index < 0 {
		return 0, fmt.Errorf("all %d regions of the peer's inbox are taken", n)
	}
	if index == n-1 {
		err = in.segment.Unlink()
	}
	return index, err
}

// find returns the region that a producer has claimed.
func (in *inbox) find(nonce uint64) (index int, ok bool) {
	for i := range in.count() {
		if in.word64(i, claimOffset).Load() == nonce {
			return i, true
		}
	}
	return 0, false
}

// notify tells the owner to poll the ring of region i. It returns the number of system calls. It
// sets the bit before it increments sequence, and the owner reads sequence before the bitmap: so
// the owner sees a bit that is set after it has read the bitmap with the next number.
func (n *notifier) notify(i int) (calls uint64) {
	n.bitmap[i/64].Or(1 << (i % 64))
	return n.wake()
}

// wake ends the owner's current or next Wait. It returns the number of system calls.
func (n *notifier) wake() (calls uint64) {
	n.sequence.Add(1)
	// Pairs with the owner's store of sleeping before it loads sequence: either the
	// owner sees the new number, or this load sees it sleeping.
	if n.sleeping.Load() != 0 {
		shm.FutexWake(n.sequence)
		calls = 1
	}
	return calls
}

func (w *worker) encodeAddress() ([]byte, error) {
	return json.Marshal(address{Boot: shm.BootID(), PID: os.Getpid(), Nonce: w.inbox.nonce,
		Ref: w.inbox.segment.Ref()})
}

func decodeAddress(b []byte) (address, error) {
	var a address
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("not an address of this transport: %w", err)
	}
	if boot := shm.BootID(); a.Boot != boot {
		return a,
			errors.New("the peer is on another host: shared memory connects processes of one host")
	}
	return a, nil
}
