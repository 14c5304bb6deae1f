package transporttest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var deviceClauses = []clause{
	{name: "device/head", run: deviceHead, needs: []need{needsDevice},
		says: "An event has the first Config.HostPrefix bytes of a payload in device memory, or " +
			"all of a shorter payload."},
	{name: "device/read", run: deviceRead, needs: []need{needsDevice},
		says: "ReadDevice reads any number of the first bytes of a payload, any number of times."},
	{name: "device/later", run: deviceLater, needs: []need{needsDevice},
		says: "After the next Poll, ReadDevice returns the payload unchanged or reports that it " +
			"is gone."},
	{name: "device/send", run: deviceSend, needs: []need{needsDeviceSend},
		says: "A call with a DeviceSlot has the bytes of the slot, and those of Op.Payload in " +
			"place of the first ones, in order with other calls."},
	{name: "device/rewrite", run: deviceRewrite, needs: []need{needsDeviceSend},
		says: "A slot can be posted many times. WriteDevice does not change calls that Post took " +
			"before."},
}

// headSize is the Config.HostPrefix of the suite.
const headSize = 16

var needsDevice = need{"Capabilities.DeviceMemory",
	func(tr traits) bool { return tr.properties.Capabilities.DeviceMemory }}

var needsDeviceSend = need{"Capabilities.DeviceSend",
	func(tr traits) bool { return tr.properties.Capabilities.DeviceSend }}

// device returns the worker's device memory.
func (n *node) device() transport.DeviceWorker {
	device, ok := n.worker.(transport.DeviceWorker)
	if !ok {
		n.trial.Fatalf("%s: declares device memory but does not implement DeviceWorker", n.name)
	}
	return device
}

func (n *node) reserve(slots uint16) transport.DeviceWorker {
	sender := n.device()
	require.NoError(n.trial, sender.ReserveDevice(slots, n.cluster.layout.maxPayload),
		"ReserveDevice")
	return sender
}

// callFromDevice posts a call whose payload begins with prefix and continues with the slot's, so
// that it is whole.
func (n *node) callFromDevice(slot uint16, prefix, whole []byte) {
	op := n.newCall(0, prefix)
	op.DeviceSlot = slot
	n.post(op)
	n.waiting[op.Token] = call{0, whole}
}

// fetch replaces the prefix of a payload in device memory by the whole payload.
func (n *node) fetch(e *transport.Event) {
	if len(e.Payload) == e.Size || !n.trial.traits.properties.Capabilities.DeviceMemory {
		return
	}
	if head := min(headSize, e.Size); len(e.Payload) != head {
		n.trial.Fatalf("%s: %d bytes of a payload of %d, and Config.HostPrefix is %d", n.name,
			len(e.Payload), e.Size, headSize)
	}
	whole := make([]byte, e.Size)
	if !n.read(e, whole) {
		n.trial.Fatalf(
			"%s: ReadDevice reports before the next Poll that a payload of %d bytes is gone",
			n.name, e.Size)
	}
	n.sameBytes("head of a payload in device memory", e.Payload, whole[:len(e.Payload)])
	e.Payload = whole
}

func (n *node) read(e *transport.Event, into []byte) (valid bool) {
	valid, err := n.device().ReadDevice(e.Peer, e.DeviceOffset, into)
	require.NoError(n.trial, err, "ReadDevice")
	return valid
}

func deviceHead(t *trial) {
	c, a, b := t.pair(layout{})
	for i, size := range []int{0, 1, headSize - 1, headSize, headSize + 1, 1000,
		c.layout.maxPayload} {
		a.call(0, pattern(uint64(i), size))
		b.call(0, pattern(uint64(i)<<32, size))
	}
	c.settle()
}

func deviceRead(t *trial) {
	c, a, b := t.pair(layout{})
	b.onRequest = func(e transport.Event) { // e has the whole payload
		for _, size := range []int{e.Size, 1, headSize + 1, e.Size / 2, e.Size} {
			into := make([]byte, size)
			require.True(t, b.read(&e, into), "a payload is read again")
			b.sameBytes("part of a payload in device memory", into, e.Payload[:size])
		}
		b.reply(e, e.Payload)
	}
	for i, size := range []int{100, c.layout.maxPayload, 2 * headSize} {
		a.call(0, pattern(uint64(i), min(size, c.layout.maxPayload)))
	}
	c.drain()
}

func deviceLater(t *trial) {
	c, a, b := t.pair(layout{})
	type kept struct {
		event   transport.Event
		payload []byte
	}
	var all []kept
	b.onRequest = func(e transport.Event) {
		all = append(all, kept{e, slices.Clone(e.Payload)})
		b.reply(e, e.Payload)
	}
	for i := range uint64(400) {
		a.call(0, pattern(i, min(int(64+i), c.layout.maxPayload)))
		if i%100 == 99 {
			a.call(0, pattern(i, c.layout.maxPayload))
		}
		c.drain()
		for k := 0; k < len(all); k += 1 + len(all)/8 {
			into := make([]byte, len(all[k].payload))
			if b.read(&all[k].event, into) {
				b.sameBytes("payload that is still in device memory", into, all[k].payload)
			}
		}
	}
}

func deviceSend(t *trial) {
	c, a, _ := t.pair(layout{})
	sizes := []int{0, 1, headSize - 1, headSize, headSize + 1, 1000, c.layout.maxPayload / 2,
		c.layout.maxPayload}
	sender := a.reserve(uint16(len(sizes)))
	for i, size := range sizes {
		sizes[i] = min(size, c.layout.maxPayload)
		require.NoError(t, sender.WriteDevice(uint16(i+1), pattern(uint64(i), sizes[i])),
			"WriteDevice")
	}
	for round := range 4 {
		for i, size := range sizes {
			whole := pattern(uint64(i), size)
			prefix := min(size, []int{headSize, 0, 3, size}[round])
			copy(whole, pattern(uint64(100+round), prefix))
			a.callFromDevice(uint16(i+1), slices.Clone(whole[:prefix]), whole)
			a.call(0, pattern(uint64(1000+i), min(64+i, c.layout.maxPayload))) // from host memory
			if i%3 == 2 {
				a.flush()
			}
		}
	}
	c.settle()
}

func deviceRewrite(t *trial) {
	c, a, _ := t.pair(layout{})
	sender := a.reserve(1)
	for i := range uint64(30) {
		whole := pattern(i, c.layout.maxPayload-int(i%2))
		require.NoError(t, sender.WriteDevice(1, whole), "WriteDevice")
		head := min(headSize, len(whole))
		for range 3 {
			a.callFromDevice(1, whole[:head], whole)
		}
	}
	c.settle()
}
