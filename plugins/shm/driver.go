package shm

import (
	"context"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// Driver opens the shared-memory transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: version,
		Summary:      "rings in shared memory between processes of one host",
		Choose:       "if all processes run on one host",
		Groups:       []transport.Group{transport.GroupMemory},
		Providers:    []string{string(shm.Memfd), string(shm.Named)},
		Capabilities: inbox.Capabilities,
		Limits:       transport.Limits{MaxPayload: inbox.MaxPayload, InlineSize: ring.CallInlineSize, Peers: inbox.MaxPeers},
		Needs:        transport.Needs{WorkerFiles: 1, PeerFiles: 2},
		Options:      schema,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	t, err := inbox.Open(resolve(cfg))
	if err != nil {
		return nil, err // not t, which is a typed nil
	}
	return t, nil
}
