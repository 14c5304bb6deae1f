package datagram_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// counted returns the value of a port's counter, or -1.
func counted(p datagram.Port, name string) int {
	for _, s := range p.ReadStats(nil) {
		if s.Name == name {
			return int(s.Value)
		}
	}
	return -1
}

// fullDevice is a device whose queue pairs take a limited number of sends.
type fullDevice struct {
	rdma.Device
	made []*fullPair
}

type fullPair struct {
	rdma.QueuePair
	room int
}

func (d *fullDevice) NewQueuePair(c rdma.QueuePairConfig) (rdma.QueuePair, error) {
	q, err := d.Device.NewQueuePair(c)
	d.made = append(d.made, &fullPair{q, 1000})
	return d.made[len(d.made)-1], err
}

func (q *fullPair) PostSend(requests []rdma.SendRequest) (int, error) {
	n, err := q.QueuePair.PostSend(requests[:min(len(requests), q.room)])
	q.room -= n
	if err == nil && n < len(requests) {
		err = rdma.ErrQueueFull
	}
	return n, err
}

// TestVerbsSendsTheRestLater: datagrams that a flush kept leave with a Receive that polls a
// completion, unchanged and before later ones.
func TestVerbsSendsTheRestLater(t *testing.T) {
	var x [2]*datagram.Verbs
	var full [2]*fullDevice
	for i := range x {
		d, err := devices.Open(rdma.Options{Provider: rdma.Soft})
		require.NoError(t, err)
		defer d.Close()
		full[i] = &fullDevice{Device: d}
		x[i], err = datagram.OpenVerbs(full[i], datagram.VerbsOptions{SignalInterval: 1})
		require.NoError(t, err)
		defer x[i].Close()
	}
	a, b := x[0], x[1]
	pair := full[0].made[len(full[0].made)-1] // the first is the probe's
	to, err := a.Open(b.Address())
	require.NoError(t, err)
	back, err := b.Open(a.Address())
	require.NoError(t, err)
	next := byte(0)
	send := func(n int) {
		for range n {
			require.True(t, a.Send(to, []byte{next}, make([]byte, 20)))
			next++
		}
	}
	packets := make([]datagram.Packet, 64)
	receive := func(p *datagram.Verbs) []datagram.Packet {
		n, err := p.Receive(packets, datagram.Target{})
		require.NoError(t, err)
		return packets[:n]
	}

	pair.room = 3
	send(10)
	require.NoError(t, a.Flush())
	require.Equal(t, 3, counted(a, "datagrams_sent"))
	pair.room = 4
	send(2)
	require.True(t, b.Send(back, []byte("completes"), nil))
	require.NoError(t, b.Flush())
	require.Eventually(t, func() bool { receive(a); return counted(a, "datagrams_sent") == 7 },
		time.Minute, time.Microsecond)
	for range 100 {
		receive(a)
	}
	require.Equal(t, 7, counted(a, "datagrams_sent"))
	require.Equal(t, 1, counted(a, "send_queue_full"),
		"counted once, although several flushes found the queue full")
	require.Equal(t, 2, counted(a, "send_calls"), "postlists with room for a send")
	pair.room = 100
	require.NoError(t, a.Flush())
	for want := byte(0); want < next; {
		for _, p := range receive(b) {
			require.Equal(t, want, p.Data[0])
			require.Len(t, p.Data, 21)
			want++
		}
		receive(a)
	}
}
