package copyrpc

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// dynamicDevice is a device with DC queue pairs that are RC underneath, as no device without mlx5
// has any.
type dynamicDevice struct{ rdma.Device }

func openDynamic(o rdma.Options) (rdma.Device, error) {
	d, err := devices.Open(o)
	if err != nil {
		return nil, err
	}
	return dynamicDevice{d}, nil
}

func (d dynamicDevice) NewQueuePair(c rdma.QueuePairConfig) (rdma.QueuePair, error) {
	if c.Type != rdma.DynamicallyConnected {
		return d.Device.NewQueuePair(c)
	}
	if c.Shared == nil {
		return nil, errors.New("a DC queue pair without a shared receive queue")
	}
	c.Type = rdma.ReliableConnected
	qp, err := d.Device.NewQueuePair(c)
	return &dynamicPair{QueuePair: qp, key: c.QKey}, err
}

// dynamicPair is a DC queue pair that has one peer at most.
type dynamicPair struct {
	rdma.QueuePair
	key  uint32
	peer bool
}

func (p *dynamicPair) Endpoint() rdma.Endpoint {
	e := p.QueuePair.Endpoint()
	e.Type, e.QKey = rdma.DynamicallyConnected, p.key
	return e
}

func (p *dynamicPair) Connect(rdma.Endpoint, rdma.ConnectOptions) error {
	return errors.New("Connect of a DC queue pair")
}

func (p *dynamicPair) AddPeer(remote rdma.Endpoint) (rdma.PeerHandle, error) {
	if remote.Type != rdma.DynamicallyConnected || remote.QKey == 0 || p.peer {
		return 0, errors.New("no endpoint of a DC queue pair, or a second one")
	}
	p.peer = true
	remote.Type = rdma.ReliableConnected
	return 0, p.QueuePair.Connect(remote, rdma.ConnectOptions{})
}

func (p *dynamicPair) PostSend(requests []rdma.SendRequest) (int, error) {
	for i := range requests {
		if !p.peer || requests[i].Peer != 0 {
			return 0, rdma.ErrNoPeer
		}
	}
	return p.QueuePair.PostSend(requests)
}

// useDynamic makes transports open a device with DC queue pairs.
func useDynamic(t *testing.T) {
	openDevice = openDynamic
	t.Cleanup(func() { openDevice = devices.Open })
}

// The soft device has no DC, and what sets up connections is not for it.
func TestDynamicRefused(t *testing.T) {
	open := func(more ...string) error {
		v, err := transport.ParseOptions(schema, soft(append(more, "queue-pairs", "dc")...))
		require.NoError(t, err)
		tr, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1,
			MaxPayload: 64, Options: v})
		if err == nil {
			require.NoError(t, tr.Close())
		}
		return err
	}
	require.ErrorIs(t, open(), transport.ErrUnavailable)
	require.ErrorContains(t, open(), "the soft device has no dynamically connected queue pairs")
	useDynamic(t)
	require.NoError(t, open())
	require.ErrorContains(t, open("timeout", "10"), "leave them out with dc")
}
