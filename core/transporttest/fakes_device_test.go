package transporttest

import (
	"testing"

	"transportbench/core/transport"
)

// inDevice turns f into a fake with payloads in device memory and a fault.
func inDevice(f fake, spoil func(*faultyDevice)) fake {
	f.properties = func(p *transport.Properties) { p.Capabilities.DeviceMemory = true }
	f.shape = func(w transport.Worker) transport.Worker {
		d := &faultyDevice{deviceWorker: &deviceWorker{wholeWorker: w.(*fakeWorker), prefix: headSize}}
		d.poll, d.readDevice = d.deviceWorker.Poll, d.deviceWorker.ReadDevice
		spoil(d)
		return d
	}
	return f
}

type faultyDevice struct {
	*deviceWorker
	poll       func([]transport.Event) (int, error)
	readDevice func(transport.PeerID, uint64, []byte) (bool, error)
}

func (d *faultyDevice) Poll(events []transport.Event) (int, error) { return d.poll(events) }
func (d *faultyDevice) ReadDevice(peer transport.PeerID, offset uint64, into []byte) (bool, error) {
	return d.readDevice(peer, offset, into)
}

var deviceFakes = []fake{
	inDevice(fake{name: "leaves the prefixes in device memory", clause: "device/head", says: "0 bytes of a payload of 17, and Config.HostPrefix is 16"},
		func(d *faultyDevice) {
			d.poll = func(events []transport.Event) (int, error) {
				n, err := d.deviceWorker.Poll(events)
				for i := range events[:n] {
					if e := &events[i]; len(e.Payload) < e.Size {
						e.Payload = nil
					}
				}
				return n, err
			}
		}),
	inDevice(fake{name: "reads whole payloads only", clause: "device/read", says: "part of a payload in device memory"},
		func(d *faultyDevice) {
			d.readDevice = func(peer transport.PeerID, offset uint64, into []byte) (bool, error) {
				if len(into) < len(d.slots[offset%deviceSlots]) {
					return true, nil
				}
				return d.deviceWorker.ReadDevice(peer, offset, into)
			}
		}),
	inDevice(fake{name: "never reports that a payload is gone", clause: "device/later", says: "payload that is still in device memory"},
		func(d *faultyDevice) {
			d.readDevice = func(_ transport.PeerID, offset uint64, into []byte) (bool, error) {
				copy(into, d.slots[offset%deviceSlots])
				return true, nil
			}
		}),
}

func TestDeviceConforms(t *testing.T) {
	d := &Device{}
	Run(t, Suite{Driver: d, Kill: d.Kill})
}
