package gputest

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/cuda"
)

// region is memory with a GPU address.
type region struct {
	address cuda.Address
	memory  []byte
	pinned  bool // of the host
	dmabuf  int  // descriptor of Alloc; 0 for other memory
	written []byte
}

func (d *Device) add(memory []byte, pinned bool) cuda.Address {
	at := d.next
	// Addresses after a region are unused, so that overruns are detected.
	d.next += cuda.Address(len(memory)+2*4096) &^ 4095
	d.regions = append(d.regions, region{address: at, memory: memory, pinned: pinned,
		written: make([]byte, len(memory))})
	return at
}

func (d *Device) remove(which func(region) bool) {
	before := len(d.regions)
	if d.regions = slices.DeleteFunc(d.regions, which); len(d.regions) != before-1 {
		d.mistake("memory is given up that is not there")
	}
}

func same(memory []byte) func(region) bool {
	return func(r region) bool { return r.pinned && len(memory) > 0 && &r.memory[0] == &memory[0] }
}

// Register maps host memory.
func (d *Device) Register(memory []byte) (cuda.Address, error) {
	err := d.enter("Register")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return d.add(memory, true), nil
}

// Unregister unmaps host memory.
func (d *Device) Unregister(memory []byte) error {
	err := d.enter("Unregister")
	defer d.mu.Unlock()
	d.remove(same(memory))
	return err
}

// HostAlloc allocates mapped host memory.
func (d *Device) HostAlloc(size int) ([]byte, cuda.Address, error) {
	err := d.enter("HostAlloc")
	defer d.mu.Unlock()
	if err != nil {
		return nil, 0, err
	}
	d.made["host"]++
	memory := aligned(size)
	return memory, d.add(memory, true), nil
}

// HostFree frees memory of HostAlloc.
func (d *Device) HostFree(memory []byte) error {
	err := d.enter("HostFree")
	defer d.mu.Unlock()
	d.remove(same(memory))
	return err
}

// ringUnit is the mapping granularity.
const ringUnit = 64 << 10

// AllocRing allocates device memory whose second half mirrors the first.
func (d *Device) AllocRing(size int) (cuda.Address, int, error) {
	err := d.enter("AllocRing")
	defer d.mu.Unlock()
	if err != nil {
		return 0, 0, err
	}
	d.made["memory"]++
	whole := (size + ringUnit - 1) / ringUnit * ringUnit
	return d.add(make([]byte, 2*whole), false), whole, nil
}

// FreeRing frees memory of AllocRing.
func (d *Device) FreeRing(a cuda.Address, size int) error {
	err := d.enter("FreeRing")
	defer d.mu.Unlock()
	d.remove(func(r region) bool { return !r.pinned && r.address == a && len(r.memory) == 2*size })
	return err
}

// Alloc allocates device memory that begins within a page.
func (d *Device) Alloc(size int) (cuda.Address, error) {
	err := d.enter("Alloc")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	d.made["memory"]++
	const within = 512
	fd, err := unix.MemfdCreate("gputest", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	pages := (size + 2*4096) &^ 4095
	if err := unix.Ftruncate(fd, int64(pages)); err != nil {
		return 0, err
	}
	memory, err := unix.Mmap(fd, 0, pages, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	at := d.add(memory, false)
	d.regions[len(d.regions)-1].dmabuf = fd
	return at + within, nil
}

// Free frees memory of Alloc.
func (d *Device) Free(a cuda.Address) error {
	err := d.enter("Free")
	defer d.mu.Unlock()
	d.remove(func(r region) bool {
		if r.dmabuf == 0 || !r.has(a, 1) {
			return false
		}
		err = errors.Join(err, unix.Munmap(r.memory), unix.Close(r.dmabuf))
		return true
	})
	return err
}

// Export returns a descriptor of memory of Alloc, which a test that plays the NIC can write to. It
// begins with the region's second page, as an address rounded up does.
func (d *Device) Export(a cuda.Address, size int) (descriptor int, err error) {
	err = d.enter("Export")
	defer d.mu.Unlock()
	if err != nil {
		return -1, err
	}
	r, at := d.find(a, size)
	switch {
	case r == nil:
		return -1, d.broken
	case r.dmabuf == 0 || a%4096 != 0 || size%4096 != 0:
		d.mistake("%d bytes at %#x are exported: no pages of Alloc", size, uint64(a))
	case at != ExportedAt:
		d.mistake("the dmabuf begins %d bytes into its memory", at)
	}
	return unix.FcntlInt(uintptr(r.dmabuf), unix.F_DUPFD_CLOEXEC, 0)
}

// ExportedAt is where the memory of Export begins in the file of its descriptor.
const ExportedAt = 4096

// copyAcross copies a write in one half of a ring to the other.
func (r *region) copyAcross(at, n int) {
	if r.dmabuf != 0 {
		return // not a ring
	}
	half := len(r.memory) / 2
	if first := min(at+n, half); at < first {
		copy(r.memory[at+half:], r.memory[at:first])
	}
	if second := max(at, half); second < at+n {
		copy(r.memory[second-half:], r.memory[second:at+n])
	}
}

// CopyIn queues a copy.
func (d *Device) CopyIn(s cuda.Stream, to cuda.Address, from []byte) error {
	err := d.enter("CopyIn")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "copy", func() {
		if r, at := d.find(to, len(from)); r != nil {
			copy(r.memory[at:], from)
			r.copyAcross(at, len(from))
		}
	})
	return nil
}

// CopyOut queues a copy.
func (d *Device) CopyOut(s cuda.Stream, to []byte, from cuda.Address) error {
	err := d.enter("CopyOut")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "copy", func() {
		if r, at := d.find(from, len(to)); r != nil {
			copy(to, r.memory[at:])
		}
	})
	return nil
}

func (r *region) has(a cuda.Address, n int) bool {
	return a >= r.address && a+cuda.Address(n) <= r.address+cuda.Address(len(r.memory))
}

// find returns the region with n bytes at an address. If there is none, the device breaks.
func (d *Device) find(a cuda.Address, n int) (*region, int) {
	for i := range d.regions {
		if r := &d.regions[i]; r.has(a, n) {
			return r, int(a - r.address)
		}
	}
	d.broken = &cuda.Error{Call: "kernel", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS",
		Text: fmt.Sprintf("%d bytes at %#x", n, uint64(a))}
	return nil, 0
}
