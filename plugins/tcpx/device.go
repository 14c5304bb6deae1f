package tcpx

import (
	"errors"
	"fmt"
	"runtime"

	"transportbench/core/fabric/doublemap"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

var _ transport.DeviceWorker = (*worker)(nil)

// ReserveDevice implements [transport.DeviceWorker].
func (w *worker) ReserveDevice(slots uint16, size int) error {
	d := &w.source
	switch {
	case w.destroyed:
		return name.Error("reserve device memory", transport.ErrClosed)
	case d.gpu == nil || d.sizes != nil:
		return name.Error("reserve device memory",
			fmt.Errorf("without send-memory=device, or for the second time: %w",
				transport.ErrUnsupported))
	}
	d.stride = max(size, 1)
	if err := d.addPlaces(int(slots)); err != nil {
		return name.Error("reserve device memory", err)
	}
	d.sizes = make([]int, int(slots)+1)
	return nil
}

// WriteDevice implements [transport.DeviceWorker].
func (w *worker) WriteDevice(slot uint16, payload []byte) error {
	d := &w.source
	switch {
	case w.destroyed:
		return name.Error("write device memory", transport.ErrClosed)
	case slot == 0 || int(slot) >= len(d.sizes):
		return name.Error("write device memory", fmt.Errorf("slot %d is not reserved: %w", slot,
			transport.ErrUnsupported))
	case len(payload) > d.stride || len(payload) > w.settings.payload:
		return name.Error("write device memory", transport.ErrTooLarge)
	}
	// Copies that have started end before Write begins; the others have to be started.
	for _, p := range w.peers.ByID {
		for p != nil && !p.copies.waiting.Empty() && p.conn.Err == nil {
			p.copies.advance()
			runtime.Gosched()
		}
	}
	if len(payload) > 0 {
		place, err := w.freePlace(int(slot))
		if err == nil {
			err = d.gpu.Write(place.memory, payload)
		}
		if err != nil {
			return name.Error("write device memory", err)
		}
	}
	d.sizes[slot] = len(payload)
	return nil
}

// addPlaces allocates as many places as there are slots.
func (d *deviceSource) addPlaces(slots int) (err error) {
	var memory bounce.Buffer
	var dmabuf uint32
	if d.nic != nil {
		memory, dmabuf, err = d.nic.AllocateSource(d.gpu, slots*d.stride)
	} else {
		memory, err = d.gpu.AllocateSource(slots * d.stride)
		d.memory = memory
	}
	for i := 0; err == nil && i < slots; i++ {
		offset := i * d.stride
		d.places = append(d.places, devicePlace{memory: memory.Slice(offset, d.stride),
			dmabuf: dmabuf, offset: uint64(offset)})
	}
	return err
}

// freePlace gives a slot a place from which no stream sends. The kernel does not copy what it
// sends, so a place is free only once the peers have acknowledged the calls that Post took.
func (w *worker) freePlace(slot int) (*devicePlace, error) {
	d := &w.source
	slots := len(d.sizes) - 1
	own, first := &d.places[slot-1], len(d.places)
	if !w.sendsFrom(own) {
		return own, nil
	}
	for i := slots; i < first; i++ {
		if !w.sendsFrom(&d.places[i]) {
			first = i
		}
	}
	if first == len(d.places) {
		if err := d.addPlaces(slots); err != nil {
			return nil, err
		}
		own = &d.places[slot-1]
	}
	*own, d.places[first] = d.places[first], *own
	return own, nil
}

func (w *worker) sendsFrom(place *devicePlace) bool {
	for _, p := range w.peers.ByID {
		if p != nil && p.conn.Err == nil &&
			p.conn.Out.HoldsDevice(place.dmabuf, place.offset, w.source.stride) {
			return true
		}
	}
	return false
}

// open takes the GPU that unpacks, and the NIC if it sends from the GPU's memory.
func (d *deviceSource) open(unpacker bounce.Unpacker, memory bounce.Allocator) {
	d.gpu = bounce.Inner(unpacker).(*bounce.GPU)
	d.nic, _ = memory.(*bounce.Dmabuf)
}

// copies reports whether the GPU copies payloads to staging rings.
func (d *deviceSource) copies() bool { return d.gpu != nil && d.nic == nil }

func (d *deviceSource) close() error {
	if d.gpu == nil {
		return nil
	}
	return d.gpu.Free(d.memory)
}

// newStaging makes the staging ring of a connection, pinned if the GPU copies to it.
func (w *worker) newStaging() ([]byte, error) {
	staging, err := doublemap.New("transportbench-tcpx-staging", w.settings.staging)
	if err == nil && w.source.copies() {
		if err = w.source.gpu.Pin(staging[:len(staging)/2]); err != nil {
			err = errors.Join(err, doublemap.Free(staging))
		}
	}
	return staging, err
}

func (w *worker) freeStaging(staging []byte) (err error) {
	if w.source.copies() {
		err = w.source.gpu.Unpin(staging[:len(staging)/2])
	}
	return errors.Join(err, doublemap.Free(staging))
}
