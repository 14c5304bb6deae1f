package memory

import (
	"context"

	"transportbench/core/transport"
)

// deviceSlots is the number of payloads in the device memory of a worker of [Device]; the next one
// overwrites the oldest.
const deviceSlots = 256

// Device is [Driver] with payloads that stay in device memory: only their first Config.HostPrefix
// bytes are in host memory, and the whole is read through [transport.DeviceWorker].
type Device struct {
	Driver
	// Damage, if set, may change each payload in device memory. The threads of all workers call it.
	Damage func(payload []byte)
	// Sends declares [transport.Capabilities.DeviceSend].
	Sends bool
}

// Info implements [transport.Driver].
func (d *Device) Info() transport.Info {
	info := d.Driver.Info()
	info.Capabilities.DeviceMemory, info.Capabilities.DeviceSend = true, d.Sends
	return info
}

// Open implements [transport.Driver].
func (d *Device) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	t, err := d.Driver.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &deviceTransport{t.(*endpoint), d}, nil
}

// Kill is a function for Suite.Kill, like [Driver.Kill].
func (d *Device) Kill(t transport.Transport) { d.Driver.Kill(t.(*deviceTransport).endpoint) }

type deviceTransport struct {
	*endpoint
	device *Device
}

// Properties implements [transport.Transport].
func (t *deviceTransport) Properties() transport.Properties {
	p := t.endpoint.Properties()
	p.Capabilities.DeviceMemory, p.Capabilities.DeviceSend = true, t.device.Sends
	return p
}

// NewWorker implements [transport.Transport].
func (t *deviceTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.endpoint.NewWorker(index)
	if err != nil {
		return nil, err
	}
	return &deviceWorker{wholeWorker: w.(*worker), prefix: t.config.HostPrefix,
		damage: t.device.Damage}, nil
}

// wholeWorker has the methods of a worker of Driver.
type wholeWorker interface {
	transport.Worker
	transport.Waiter
	transport.Prober
	transport.StatsReader
}

// deviceWorker moves the payloads of another worker to device memory.
type deviceWorker struct {
	wholeWorker
	prefix int
	damage func(payload []byte)
	slots  [deviceSlots][]byte // a ring
	count  uint64              // payloads written so far

	sources [][]byte        // payloads to send, by slot; nil before ReserveDevice
	one     [1]transport.Op // what Post passes on
	whole   []byte          // its payload
}

// Poll implements [transport.Worker]. It allocates until the largest payload has been in every
// slot.
func (w *deviceWorker) Poll(events []transport.Event) (int, error) {
	n, err := w.wholeWorker.Poll(events[:min(len(events), deviceSlots)])
	for i := range events[:n] {
		if e := &events[i]; len(e.Payload) > w.prefix {
			slot := &w.slots[w.count%deviceSlots]
			*slot = append((*slot)[:0], e.Payload...)
			e.Payload, e.DeviceOffset = e.Payload[:w.prefix:w.prefix], w.count
			w.count++
			if w.damage != nil {
				w.damage(*slot)
			}
		}
	}
	return n, err
}

// ReadDevice implements [transport.DeviceWorker].
func (w *deviceWorker) ReadDevice(_ transport.PeerID, offset uint64, into []byte) (valid bool,
	err error) {
	if w.count-offset > deviceSlots {
		return false, nil
	}
	copy(into, w.slots[offset%deviceSlots])
	return true, nil
}

// ReserveDevice implements [transport.DeviceWorker].
func (w *deviceWorker) ReserveDevice(slots uint16, size int) error {
	w.sources, w.whole = make([][]byte, int(slots)+1), make([]byte, size)
	return nil
}

// WriteDevice implements [transport.DeviceWorker].
func (w *deviceWorker) WriteDevice(slot uint16, payload []byte) error {
	w.sources[slot] = append(w.sources[slot][:0], payload...)
	return nil
}

// Post implements [transport.Worker].
func (w *deviceWorker) Post(ops []transport.Op) (int, error) {
	if w.sources == nil {
		return w.wholeWorker.Post(ops)
	}
	for i := range ops {
		w.one[0] = ops[i]
		if op := &w.one[0]; op.DeviceSlot != 0 {
			whole := w.whole[:copy(w.whole, w.sources[op.DeviceSlot])]
			copy(whole, op.Payload)
			op.Payload, op.DeviceSlot = whole, 0
		}
		if n, err := w.wholeWorker.Post(w.one[:]); n == 0 || err != nil {
			return i, err
		}
	}
	return len(ops), nil
}
