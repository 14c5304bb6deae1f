package transporttest

import (
	"context"

	"transportbench/core/transport"
)

// devicePlaces is how many payloads the device memory of a worker of [Device] has room
// for; then the oldest place is used again.
const devicePlaces = 256

// Device is [Memory] with payloads that stay in device memory, but for their heads: what
// is beyond Config.HostPrefix is only reached through [transport.DeviceReader].
type Device struct {
	Memory
	// Damage, where it is set, may change a payload when it is in device memory. It is
	// called by the threads of all workers.
	Damage func(payload []byte)
}

// Info implements [transport.Driver].
func (d *Device) Info() transport.Info {
	info := d.Memory.Info()
	info.Capabilities.DeviceMemory = true
	return info
}

// Open implements [transport.Driver].
func (d *Device) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	t, err := d.Memory.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &deviceTransport{t.(*memoryTransport), d}, nil
}

// Kill is for Suite.Kill, as [Memory.Kill].
func (d *Device) Kill(t transport.Transport) { d.Memory.Kill(t.(*deviceTransport).memoryTransport) }

type deviceTransport struct {
	*memoryTransport
	device *Device
}

// Properties implements [transport.Transport].
func (t *deviceTransport) Properties() transport.Properties {
	p := t.memoryTransport.Properties()
	p.Capabilities.DeviceMemory = true
	return p
}

// NewWorker implements [transport.Transport].
func (t *deviceTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.memoryTransport.NewWorker(index)
	if err != nil {
		return nil, err
	}
	return &deviceWorker{wholeWorker: w.(*memoryWorker), head: t.config.HostPrefix, damage: t.device.Damage}, nil
}

// wholeWorker is what a worker of Memory implements.
type wholeWorker interface {
	transport.Worker
	transport.Waiter
	transport.Prober
	transport.StatsReader
}

// deviceWorker hands out the heads of another worker's payloads.
type deviceWorker struct {
	wholeWorker
	head   int
	damage func(payload []byte)
	places [devicePlaces][]byte // circular
	count  uint64               // payloads that were put there
}

// Poll implements [transport.Worker]. It allocates until the largest payload has been in
// every place.
func (w *deviceWorker) Poll(events []transport.Event) (int, error) {
	n, err := w.wholeWorker.Poll(events[:min(len(events), devicePlaces)])
	for i := range events[:n] {
		if e := &events[i]; len(e.Payload) > w.head {
			place := &w.places[w.count%devicePlaces]
			*place = append((*place)[:0], e.Payload...)
			e.Payload, e.DeviceOffset = e.Payload[:w.head:w.head], w.count
			w.count++
			if w.damage != nil {
				w.damage(*place)
			}
		}
	}
	return n, err
}

// ReadDevice implements [transport.DeviceReader].
func (w *deviceWorker) ReadDevice(_ transport.PeerID, place uint64, into []byte) (there bool, err error) {
	if w.count-place > devicePlaces {
		return false, nil
	}
	copy(into, w.places[place%devicePlaces])
	return true, nil
}
