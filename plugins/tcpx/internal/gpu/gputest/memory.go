package gputest

import (
	"fmt"
	"slices"

	"transportbench/plugins/tcpx/internal/cuda"
)

// region is memory with a GPU address.
type region struct {
	address cuda.Address
	memory  []byte
	pinned  bool // of the host
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

// mirror copies a write in one half of a ring to the other.
func (r *region) copyAcross(at, n int) {
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
