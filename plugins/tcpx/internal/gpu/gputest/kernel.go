package gputest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/cuda/ptxtest"
)

// kernel is the parsed unpack kernel.
var kernel = sync.OnceValues(func() (*ptxtest.Kernel, error) { return ptxtest.Parse(cuda.PTX()) })

// Launch queues the kernel, which reads the descriptors when it runs.
func (d *Device) Launch(s cuda.Stream, block cuda.Address, count int,
	source, destination cuda.Address) error {
	err := d.enter("Launch")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.queue(s, "launch", func() { d.run(block, count, source, destination) })
	return nil
}

// run runs the kernel's threads. It reports bytes of a piece that are not written exactly once,
// and writes outside the pieces.
func (d *Device) run(block cuda.Address, count int, source, destination cuda.Address) {
	k, err := kernel()
	if err != nil {
		panic(err) // the text is embedded
	}
	list, at := d.find(block, count*cuda.DescriptorSize)
	if list == nil {
		return
	}
	descriptors := make([]cuda.Descriptor, count)
	if err := binary.Read(bytes.NewReader(list.memory[at:]), binary.LittleEndian,
		descriptors); err != nil {
		panic(err) // Descriptor has fixed-size fields
	}
	threads := &kernelMemory{device: d}
	if err := k.Run(cuda.Blocks(count), []uint64{uint64(block), uint64(count), uint64(source),
		uint64(destination)}, threads); err != nil {
		if d.broken == nil {
			d.broken = err
		}
		return
	}
	bytes := 0
	for _, piece := range descriptors {
		r, at := d.find(destination+cuda.Address(piece.Destination), int(piece.Length))
		if r == nil {
			return
		}
		bytes += int(piece.Length)
		for i, times := range r.written[at : at+int(piece.Length)] {
			if times != 1 {
				d.mistake("byte %d of a piece is written %d times", i, times)
			}
		}
		r.copyAcross(at, int(piece.Length))
	}
	for _, piece := range descriptors {
		if r, at := d.find(destination+cuda.Address(piece.Destination),
			int(piece.Length)); r != nil {
			clear(r.written[at : at+int(piece.Length)])
		}
	}
	if threads.stored != bytes {
		d.mistake("%d bytes are written for pieces of %d", threads.stored, bytes)
	}
}

// kernelMemory is the device's memory for the kernel's threads.
type kernelMemory struct {
	device *Device
	last   *region // of the last access, and mostly of the next
	stored int
}

// errAddress means that the device is broken.
var errAddress = errors.New("a thread has broken the device")

func (m *kernelMemory) find(a uint64, n int) (*region, int, error) {
	if a%uint64(n) != 0 {
		m.device.broken = &cuda.Error{Call: "kernel", Code: 716,
			Name: "CUDA_ERROR_MISALIGNED_ADDRESS", Text: "misaligned address"}
		return nil, 0, errAddress
	}
	if r := m.last; r != nil && r.has(cuda.Address(a), n) {
		return r, int(cuda.Address(a) - r.address), nil
	}
	r, at := m.device.find(cuda.Address(a), n)
	if r == nil {
		return nil, 0, errAddress
	}
	m.last = r
	return r, at, nil
}

// Load and Store implement [ptxtest.Memory].
func (m *kernelMemory) Load(a uint64, into []byte) error {
	r, at, err := m.find(a, len(into))
	if err == nil {
		copy(into, r.memory[at:])
	}
	return err
}

func (m *kernelMemory) Store(a uint64, from []byte) error {
	r, at, err := m.find(a, len(from))
	if err != nil {
		return err
	}
	copy(r.memory[at:], from)
	for i := range from {
		r.written[at+i]++
	}
	m.stored += len(from)
	return nil
}
