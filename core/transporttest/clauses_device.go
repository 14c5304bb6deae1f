package transporttest

import (
	"slices"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

var deviceClauses = []clause{
	{name: "device/head", run: deviceHead, needs: []need{needsDevice},
		says: "An event has the first Config.HostPrefix bytes of a payload in device memory, or all of a shorter payload."},
	{name: "device/read", run: deviceRead, needs: []need{needsDevice},
		says: "ReadDevice reads any number of the first bytes of a payload, any number of times."},
	{name: "device/later", run: deviceLater, needs: []need{needsDevice},
		says: "After the next Poll, ReadDevice returns the payload unchanged or reports that it is gone."},
}

// headSize is the Config.HostPrefix of the suite.
const headSize = 16

var needsDevice = need{"Capabilities.DeviceMemory", func(tr traits) bool { return tr.properties.Capabilities.DeviceMemory }}

// fetch replaces the prefix of a payload in device memory by the whole payload.
func (n *node) fetch(e *transport.Event) {
	if len(e.Payload) == e.Size || !n.trial.traits.properties.Capabilities.DeviceMemory {
		return
	}
	if head := min(headSize, e.Size); len(e.Payload) != head {
		n.trial.fatalf("%s: %d bytes of a payload of %d, and Config.HostPrefix is %d", n.name, len(e.Payload), e.Size, headSize)
	}
	whole := make([]byte, e.Size)
	if !n.read(e, whole) {
		n.trial.fatalf("%s: ReadDevice reports before the next Poll that a payload of %d bytes is gone", n.name, e.Size)
	}
	n.sameBytes("head of a payload in device memory", e.Payload, whole[:len(e.Payload)])
	e.Payload = whole
}

func (n *node) read(e *transport.Event, into []byte) (valid bool) {
	reader, ok := n.worker.(transport.DeviceReader)
	if !ok {
		n.trial.fatalf("%s: declares device memory but does not implement DeviceReader", n.name)
	}
	valid, err := reader.ReadDevice(e.Peer, e.DeviceOffset, into)
	require.NoError(n.trial, err, "ReadDevice")
	return valid
}

func deviceHead(t *trial) {
	c, a, b := t.pair(layout{})
	for i, size := range []int{0, 1, headSize - 1, headSize, headSize + 1, 1000, c.layout.maxPayload} {
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
