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
func (w *worker) ReserveDevice(slots uint16, size int) (err error) {
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
	if d.memory, err = d.gpu.AllocateSource(int(slots) * d.stride); err != nil {
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
		if err := d.gpu.Write(d.memory.Slice((int(slot)-1)*d.stride, len(payload)),
			payload); err != nil {
			return name.Error("write device memory", err)
		}
	}
	d.sizes[slot] = len(payload)
	return nil
}

// open takes the GPU that unpacks.
func (d *deviceSource) open(unpacker bounce.Unpacker) {
	d.gpu = bounce.Inner(unpacker).(*bounce.GPU)
}

func (d *deviceSource) close() error {
	if d.gpu == nil {
		return nil
	}
	return d.gpu.Free(d.memory)
}

// newStaging makes the staging ring of a connection, pinned if the GPU copies to it.
func (w *worker) newStaging() ([]byte, error) {
	staging, err := doublemap.New("transportbench-tcpx-staging", w.settings.staging)
	if err == nil && w.source.gpu != nil {
		if err = w.source.gpu.Pin(staging[:len(staging)/2]); err != nil {
			err = errors.Join(err, doublemap.Free(staging))
		}
	}
	return staging, err
}

func (w *worker) freeStaging(staging []byte) (err error) {
	if w.source.gpu != nil {
		err = w.source.gpu.Unpin(staging[:len(staging)/2])
	}
	return errors.Join(err, doublemap.Free(staging))
}
