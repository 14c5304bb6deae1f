package memory

import (
	"errors"
	"testing"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// inDevice turns f into a fake with payloads in device memory and a fault.
func inDevice(f fake, spoil func(*faultyDevice)) fake {
	f.properties = func(p *transport.Properties) { p.Capabilities.DeviceMemory = true }
	f.shape = func(w transport.Worker) transport.Worker {
		sound := w.(*fakeWorker)
		d := &faultyDevice{deviceWorker: &deviceWorker{wholeWorker: sound,
			prefix: sound.transport.config.HostPrefix}}
		d.poll, d.readDevice = d.deviceWorker.Poll, d.deviceWorker.ReadDevice
		d.post, d.flush = d.deviceWorker.Post, d.deviceWorker.Flush
		spoil(d)
		return d
	}
	return f
}

// sending turns f into a fake that sends from device memory, too, with a fault.
func sending(f fake, spoil func(*faultyDevice)) fake {
	f = inDevice(f, spoil)
	f.properties = func(p *transport.Properties) {
		p.Capabilities.DeviceMemory, p.Capabilities.DeviceSend = true, true
	}
	return f
}

type faultyDevice struct {
	*deviceWorker
	post       func([]transport.Op) (int, error)
	flush      func() error
	poll       func([]transport.Event) (int, error)
	readDevice func(transport.PeerID, uint64, []byte) (bool, error)
}

func (d *faultyDevice) Post(ops []transport.Op) (int, error)       { return d.post(ops) }
func (d *faultyDevice) Flush() error                               { return d.flush() }
func (d *faultyDevice) Poll(events []transport.Event) (int, error) { return d.poll(events) }
func (d *faultyDevice) ReadDevice(peer transport.PeerID, offset uint64, into []byte) (bool, error) {
	return d.readDevice(peer, offset, into)
}

var deviceFakes = []fake{
	inDevice(fake{name: "leaves the prefixes in device memory", clause: "device/head",
		says: "0 bytes of a payload of 17, and Config.HostPrefix is 16"},
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
	inDevice(fake{name: "reads whole payloads only", clause: "device/read",
		says: "part of a payload in device memory"},
		func(d *faultyDevice) {
			d.readDevice = func(peer transport.PeerID, offset uint64, into []byte) (bool, error) {
				if len(into) < len(d.slots[offset%deviceSlots]) {
					return true, nil
				}
				return d.deviceWorker.ReadDevice(peer, offset, into)
			}
		}),
	inDevice(fake{name: "never reports that a payload is gone", clause: "device/later",
		says: "payload that is still in device memory"},
		func(d *faultyDevice) {
			d.readDevice = func(_ transport.PeerID, offset uint64, into []byte) (bool, error) {
				copy(into, d.slots[offset%deviceSlots])
				return true, nil
			}
		}),
	sending(fake{name: "sends the prefix of the slot", clause: "device/send",
		says: "differs at byte 0"},
		func(d *faultyDevice) {
			d.post = func(ops []transport.Op) (int, error) {
				for i := range ops {
					if op := ops[i]; op.DeviceSlot != 0 {
						op.Payload = nil
						if n, err := d.deviceWorker.Post([]transport.Op{op}); n == 0 || err != nil {
							return i, err
						}
					} else if n, err := d.deviceWorker.Post(ops[i : i+1]); n == 0 || err != nil {
						return i, err
					}
				}
				return len(ops), nil
			}
		}),
	sending(fake{name: "reads the slot when it flushes", clause: "device/rewrite",
		says: "response of "},
		func(d *faultyDevice) {
			var held []transport.Op
			d.post = func(ops []transport.Op) (int, error) {
				if ops[0].DeviceSlot == 0 {
					return d.deviceWorker.Post(ops)
				}
				if len(held) == 4 {
					return 0, nil
				}
				held = append(held, ops[0])
				return 1, nil
			}
			d.flush = func() error {
				n, err := d.deviceWorker.Post(held)
				held = held[n:]
				return errors.Join(err, d.deviceWorker.Flush())
			}
		}),
}

func TestDeviceConforms(t *testing.T) {
	d := &Device{}
	transporttest.Run(t, transporttest.Suite{Driver: d, Kill: d.Kill})
	d = &Device{Sends: true}
	transporttest.Run(t, transporttest.Suite{Driver: d, Kill: d.Kill})
}
