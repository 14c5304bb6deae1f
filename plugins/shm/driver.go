package shm

import (
	"context"
	"fmt"
	"time"

	"transportbench/core"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/fabric/shm/shmperf"
	"transportbench/core/transport"
)

// Driver opens the shared-memory transport.
type Driver struct{}

var (
	_ transport.Driver           = Driver{}
	_ transport.Microbenchmarker = Driver{}
)

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: name, Version: core.Version,
		Summary:      "rings in shared memory between processes of one host",
		Choose:       "if all processes run on one host",
		Groups:       []transport.Group{transport.GroupMemory},
		Providers:    []string{string(shm.Memfd), string(shm.Named)},
		Capabilities: inbox.Capabilities,
		Limits: transport.Limits{MaxPayload: inbox.MaxPayload,
			InlineSize: ring.InlineSize, Peers: inbox.MaxPeers},
		Needs:        transport.Needs{WorkerFiles: 1, PeerFiles: 2},
		Options:      schema,
		MicroOptions: shmperf.Schema,
		Layer:        shmperf.Layer,
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

// Microbenchmarks implements [transport.Microbenchmarker].
func (Driver) Microbenchmarks() []string { return shmperf.Names() }

// Microbenchmark implements [transport.Microbenchmarker]. It measures shared memory without the
// transport and ignores the transport's own options.
func (Driver) Microbenchmark(ctx context.Context, v transport.Values, wanted func(string) bool,
	d time.Duration, report func(transport.Measurement) error) error {
	o, err := shmperf.ParseOptions(v, d)
	if err != nil {
		return err
	}
	if err := shmperf.Run(ctx, o, wanted, report); err != nil {
		return fmt.Errorf("%s: micro: %w", name, err)
	}
	return nil
}
