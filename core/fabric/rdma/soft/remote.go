package soft

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
)

// remoteDevice is the device of a peer. All queue pairs connected to that device share it.
type remoteDevice struct {
	users       int // guarded by the mutex of the own device
	nonce       uint64
	pid         int
	directory   *shm.Segment
	entries     words
	watchHandle int
	dead        atomic.Bool

	mu       sync.Mutex // held while mapping a region
	mappings [maxRegions]atomic.Pointer[mapping]
	mapped   []*shm.Segment
}

// mapping is a region of a peer, mapped into this process.
type mapping struct {
	key uint32
	registered
}

// openRemote opens the device of a peer unless it is open. Each call needs a call of
// releaseRemote.
func (d *softDevice) openRemote(e *rdma.SoftEndpoint) (*remoteDevice, error) {
	if e.Boot != d.boot {
		return nil,
			fmt.Errorf("%w: it is on another host, and the soft device reaches one host only",
				rdma.ErrPeer)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Closed {
		return nil, rdma.ErrClosed
	}
	if r, ok := d.remotes[e.Device]; ok {
		r.users++
		return r, nil
	}
	r := &remoteDevice{users: 1, nonce: e.Device, pid: e.Directory.PID}
	// Watch first: if the directory can still be opened afterwards, the watched process is
	// its owner and not a later process with the same ID.
	if r.pid != os.Getpid() {
		handle, err := d.watch.Add(r.pid, func() { r.dead.Store(true); d.notifyAll() })
		if err != nil {
			return nil, fmt.Errorf("%w: %w", rdma.ErrPeer, err)
		}
		r.watchHandle = handle
	}
	if err := r.open(e); err != nil {
		d.watch.Remove(r.watchHandle)
		return nil, fmt.Errorf("%w: %w", rdma.ErrPeer, err)
	}
	d.remotes[e.Device] = r
	return r, nil
}

func (r *remoteDevice) open(e *rdma.SoftEndpoint) error {
	segment, err := shm.Open(e.Directory)
	if err != nil {
		return err
	}
	r.directory = segment
	r.entries, err = newWords(segment.Bytes(), directorySize)
	if err == nil && (r.entries.load64(magicOffset) != directoryMagic ||
		r.entries.load64(nonceOffset) != e.Device) {
		err = errors.New("its device is gone, or was made by another version")
	}
	if err != nil {
		return errors.Join(err, segment.Close())
	}
	return nil
}

// releaseRemote closes the device of a peer when its last user releases it.
func (d *softDevice) releaseRemote(r *remoteDevice) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if r.users--; r.users > 0 {
		return nil
	}
	delete(d.remotes, r.nonce)
	d.watch.Remove(r.watchHandle)
	errs := []error{r.directory.Close()}
	for _, segment := range r.mapped {
		errs = append(errs, segment.Close())
	}
	return errors.Join(errs...)
}

// resolve returns registered memory of the peer, and false if the key is not valid now, does
// not cover it or lacks the right. The memory stays mapped even when the key is withdrawn.
func (r *remoteDevice) resolve(key uint32, address uint64, length uint32,
	access rdma.Access) ([]byte,
	bool) {
	index := keyIndex(key)
	// Pairs with the store in Allocate.
	if key == 0 || r.entries.load32(uintptr(directoryEntries+index*entrySize+entryKey)) != key {
		return nil, false
	}
	m := r.mappings[index].Load()
	if m == nil || m.key != key {
		if m = r.mapRegion(index, key); m == nil {
			return nil, false
		}
	}
	return m.slice(address, length, access)
}

// mapRegion maps a region at its first use.
func (r *remoteDevice) mapRegion(index, key uint32) *mapping {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.mappings[index].Load(); m != nil && m.key == key {
		return m
	}
	entry := uintptr(directoryEntries + index*entrySize)
	length := *r.entries.plain64(entry + entryLength)
	if length > 1<<46 {
		return nil
	}
	segment, err := shm.Open(shm.Ref{PID: r.pid, FD: int(*r.entries.plain32(entry + entryFD)),
		Size: int(length)})
	if err != nil {
		return nil
	}
	// A device populates its regions. A peer that claims a huge region without memory must not make
	// this process allocate it.
	if segment.HasMemory() {
		_ = shm.Populate(segment.Bytes()) // without it, only the first accesses are slow
	}
	m := &mapping{key, registered{rdma.Access(*r.entries.plain32(entry + entryAccess)),
		*r.entries.plain64(entry + entryAddress), segment.Bytes()}}
	// The fields belong together only if the key has not changed.
	if r.entries.load32(entry+entryKey) != key {
		_ = segment.Close()
		return nil
	}
	r.mapped = append(r.mapped, segment)
	r.mappings[index].Store(m)
	return m
}

// peerLink is the wire of a remote queue pair, mapped to write messages to it.
type peerLink struct {
	remote   *remoteDevice
	segment  *shm.Segment
	wire     words
	notifier notifierWords // of the wire's owner
}

// openLink opens the device of an endpoint and its wire, and checks the wire's nonce.
func (d *softDevice) openLink(e *rdma.SoftEndpoint) (l peerLink, err error) {
	if l.remote, err = d.openRemote(e); err != nil {
		return l, err
	}
	if l.segment, err = shm.Open(e.Wire); err != nil {
		return l, errors.Join(fmt.Errorf("%w: %w", rdma.ErrPeer, err), d.releaseRemote(l.remote))
	}
	l.wire, err = newWords(l.segment.Bytes(), wireHeaderSize)
	if err == nil && (l.wire.load64(magicOffset) != wireMagic ||
		l.wire.load64(nonceOffset) != e.Nonce) {
		err = errors.New("its queue pair is gone, or was made by another version")
	}
	if err != nil {
		return l, errors.Join(fmt.Errorf("%w: %w", rdma.ErrPeer, err), d.closeLink(&l))
	}
	l.notifier = noNotifier
	if i := l.wire.load32(wireNotifier); i > 0 && i <= maxNotifiers {
		l.notifier = notifierWordsAt(l.remote.directory, int(i-1))
	}
	return l, nil
}

func (d *softDevice) closeLink(l *peerLink) error {
	return errors.Join(l.segment.Close(), d.releaseRemote(l.remote))
}

// notify wakes the owner of the wire if it sleeps. Call it after storing something that the
// owner must see. The load here may overtake that store; the barrier in Wait makes up for it.
// Wait stores stateWaiting, then runs the barrier and looks again, so either it sees what was
// stored or this sees stateWaiting.
func (l *peerLink) notify() (calls uint64) {
	if l.wire.load64(wireState)&stateWaiting != 0 {
		return l.notifier.notify()
	}
	return 0
}
