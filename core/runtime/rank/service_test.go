package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// reluctant takes one op of every second post.
type reluctant struct {
	transport.Worker
	posts *int
}

func (w reluctant) Post(ops []transport.Op) (int, error) {
	if *w.posts++; *w.posts%2 == 0 {
		return 0, nil
	}
	return w.Worker.Post(ops[:1])
}

// TestEchoUnderBackPressure checks that a reply that waits beyond a poll keeps its payload.
func TestEchoUnderBackPressure(t *testing.T) {
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshProxied} {
		cfg := testConfig()
		cfg.Service, cfg.ReadRatio, cfg.Topology = config.ServiceEcho, 1, topology
		driver := wrapped{memory.NewDriver(),
			func(w transport.Worker) transport.Worker {
				return memory.Poison(reluctant{w, new(int)})
			}}
		first, others := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 1, 1000)
		require.Empty(t, others[0].Clients[0].Failures)
		require.Positive(t, others[0].Clients[0].VerifiedSums)
		require.Positive(t, first.Daemons[0].BackPressure)
		require.Zero(t, first.Daemons[0].Rejected)
	}
}

func TestWrongEchoesAreCounted(t *testing.T) {
	for failure, spoil := range map[kv.Failure]func(*transport.Event){
		kv.FailureChecksum: func(e *transport.Event) { e.Payload[len(e.Payload)-1] ^= 1 },
		kv.FailureKey:      func(e *transport.Event) { e.Payload[1] ^= 1 },
		kv.FailureStatus:   func(e *transport.Event) { e.Payload[0] = 1 },
		kv.FailureShort:    func(e *transport.Event) { e.Payload = e.Payload[:7] },
		kv.FailureSize:     func(e *transport.Event) { e.Payload = append(e.Payload, 0) },
		kv.FailureStale:    func(e *transport.Event) { e.Payload[12] ^= 1 },
	} {
		for _, service := range []config.Service{config.ServiceEcho, config.ServiceSink} {
			if service == config.ServiceSink && failure == kv.FailureChecksum {
				continue // its responses have no value
			}
			cfg := testConfig()
			cfg.Service = service
			cfg.ReadRatio, _ = service.ReadRatio()
			driver := wrapped{memory.NewDriver(),
				func(w transport.Worker) transport.Worker { return wiringtest.Spoil(w, spoil) }}
			_, clients := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 1, 100)
			require.Positive(t, clients[0].Clients[0].Failures[failure.String()], "%s: %v", service,
				clients[0].Clients[0].Failures)
		}
	}
}

// damager changes the requests that a daemon polls.
type damager struct{ transport.Worker }

func (d damager) Poll(events []transport.Event) (int, error) {
	n, err := d.Worker.Poll(events)
	for i := range events[:n] {
		if e := &events[i]; e.Kind == transport.EventRequest && len(e.Payload) > kv.HeaderSize {
			e.Payload = append([]byte(nil), e.Payload...)
			e.Payload[len(e.Payload)-1] ^= 1
		}
	}
	return n, err
}

// TestSinkVerifies checks that a sink finds damage in one value of VerifyEvery.
func TestSinkVerifies(t *testing.T) {
	cfg := testConfig()
	cfg.Service, cfg.ReadRatio, cfg.VerifyEvery = config.ServiceSink, 0, 4
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return damager{w}
	}}
	_, clients := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 1, 1000)
	c := clients[0].Clients[0]
	require.InDelta(t, float64(c.Ops())/4, float64(c.Failures[kv.FailureStatus.String()]),
		float64(cfg.InFlight))
}
