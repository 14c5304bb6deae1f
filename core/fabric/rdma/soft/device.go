package soft

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/internal/objects"
	"transportbench/core/fabric/shm"
)

// Limits of the soft device.
const (
	mtu        = 4096
	maxDepth   = 1 << 16
	maxPairs   = 1 << 16
	maxMessage = 1 << 30
)

// softDevice is an open soft device. Data paths read regions; everything after Set is
// guarded by its mutex.
//
// The threads that post and poll are the device. A helper thread would need a third and
// fourth core, and two more hand-overs per message. Short payloads travel in slots because a
// receiver that also has to load a line of the region misses twice in a row. Long payloads
// are copied by the sender: fetching all of them measured 2 to 8% slower with batches.
// Receives are consumed by the receiver because senders would share the cache line of the
// counter, and one that dies in between would lose a receive.
type softDevice struct {
	nonce     uint64
	boot      string
	fallback  string
	directory *shm.Segment
	entries   words
	watch     *shm.Watcher
	notReady  atomic.Uint64

	regions [maxRegions]ownRegion

	objects.Set

	nextNumber uint32
	nextKey    uint8
	notifiers  [maxNotifiers]*softNotifier
	remotes    map[uint64]*remoteDevice // by nonce
}

// ownRegion is registered memory of this device.
type ownRegion struct {
	key atomic.Uint32 // 0 if the entry is free; stored last and cleared first
	registered
}

// registered is the memory of a region, own or mapped.
type registered struct {
	access  rdma.Access
	address uint64
	bytes   []byte
}

// slice returns length bytes at address. It returns false if the region does not cover them
// or lacks the right.
func (m *registered) slice(address uint64, length uint32, access rdma.Access) ([]byte, bool) {
	offset := address - m.address
	size := uint64(len(m.bytes))
	end := offset + uint64(length) // no overflow if offset is within the memory
	if m.access&access != access || offset > size || end > size {
		return nil, false
	}
	return m.bytes[offset:end:end], true
}

// Open opens a device. fallback is [rdma.Attributes].Fallback: why it is not of verbs, or "".
func Open(fallback string) (rdma.Device, error) {
	if err := shm.RegisterBarrier(); err != nil { // notifiers need it
		return nil, fmt.Errorf("open the soft RDMA device: %w", err)
	}
	directory, err := shm.Create("transportbench-rdma", directorySize, shm.Memfd)
	if err != nil {
		return nil, fmt.Errorf("open the soft RDMA device: %w", err)
	}
	watch, err := shm.NewWatcher()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the soft RDMA device: %w", err), directory.Close())
	}
	entries, err := newWords(directory.Bytes(), directorySize)
	if err != nil {
		return nil, err
	}
	d := &softDevice{
		nonce: rand.Uint64() | 1, boot: shm.BootID(), fallback: fallback, directory: directory,
		entries: entries, watch: watch,
		nextNumber: 1 + rand.Uint32()%(1<<23), remotes: map[uint64]*remoteDevice{},
		Set: objects.New(),
	}
	*entries.plain64(nonceOffset) = d.nonce
	entries.store64(magicOffset, directoryMagic)
	return d, nil
}

func (d *softDevice) Attributes() rdma.Attributes {
	return rdma.Attributes{
		Provider: rdma.Soft, Name: "soft", Port: 1, Link: "memory", MTU: mtu,
		MaxQueuePairs: maxPairs, MaxSendDepth: maxDepth, MaxReceiveDepth: maxDepth,
		MaxShared: 1 << 24, MaxCompletions: 1 << 24, MaxMessage: maxMessage,
		MaxReadsInFlight: 128, Atomics: true,
		DeliversAfterClose: true, Fallback: d.fallback,
	}
}

func (d *softDevice) ReceiverNotReady() uint64 { return d.notReady.Load() }

// Allocate implements [Device]. Each region is a separate shared-memory segment, which a
// peer maps when it first uses the key. As a device pins what it registers, all of the region has
// memory from now on, if there is room: a first touch of each page would otherwise slow down the
// first calls.
func (d *softDevice) Allocate(size int, access rdma.Access) (*rdma.Region, error) {
	if size < 1 {
		return nil, rdma.Invalid("region of %d bytes", size)
	}
	if access&rdma.RelaxedOrdering != 0 {
		return nil, rdma.Invalid("relaxed ordering: the soft device is not on a PCIe bus")
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Closed {
		return nil, rdma.ErrClosed
	}
	index := -1
	for i := range d.regions {
		if d.regions[i].key.Load() == 0 {
			index = i
			break
		}
	}
	if index < 0 {
		return nil, fmt.Errorf("%w: the soft device has %d regions at most", rdma.ErrInvalid,
			maxRegions)
	}
	began := time.Now()
	segment, err := shm.Create("transportbench-region", size, shm.Memfd)
	if err != nil {
		return nil, err
	}
	if err := shm.PopulateIfRoom(segment.Bytes()); err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	if d.nextKey++; d.nextKey == 0 {
		d.nextKey = 1
	}
	key := uint32(index)<<keyShift | uint32(d.nextKey)
	s := &d.regions[index]
	s.registered = registered{access, addressOf(segment.Bytes()), segment.Bytes()}
	s.key.Store(key)
	entry := uintptr(directoryEntries + index*entrySize)
	*d.entries.plain32(entry + entryAccess) = uint32(access)
	*d.entries.plain64(entry + entryAddress) = s.address
	*d.entries.plain64(entry + entryLength) = uint64(size)
	*d.entries.plain32(entry + entryFD) = uint32(segment.Ref().FD)
	d.entries.store32(entry+entryKey, key) // pairs with the load in resolve
	d.AddRegistered(uint64(size), time.Since(began))
	r := &rdma.Region{Bytes: segment.Bytes(), Address: s.address, LocalKey: key,
		Remote: rdma.RemoteRegion{Address: s.address, Key: key, Length: uint64(size)}}
	r.Free = func() error { return d.release(r, index, segment) }
	d.AdoptLocked(r, objects.Memory)
	return r, nil
}

func (d *softDevice) release(r *rdma.Region, index int, segment *shm.Segment) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.entries.store32(uintptr(directoryEntries+index*entrySize+entryKey), 0)
	d.regions[index].key.Store(0)
	d.DisownLocked(r)
	return segment.Close()
}

// localMemory returns registered memory of this device, and false if the key does not cover
// it or lacks the right.
func (d *softDevice) localMemory(key uint32, address uint64, length uint32,
	access rdma.Access) ([]byte,
	bool) {
	if r := &d.regions[keyIndex(key)]; key != 0 && r.key.Load() == key {
		return r.slice(address, length, access)
	}
	return nil, false
}

// Close implements [Device].
func (d *softDevice) Close() error {
	errs, first := d.CloseAll()
	if !first {
		return nil
	}
	d.watch.Close()
	return errors.Join(append(errs, d.directory.Close())...)
}
