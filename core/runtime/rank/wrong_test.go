package rank

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// spoiler changes the responses that a client polls.
type spoiler struct {
	transport.Worker
	spoil func(*transport.Event)
}

func (s spoiler) Poll(events []transport.Event) (int, error) {
	n, err := s.Worker.Poll(events)
	for i := range events[:n] {
		if events[i].Kind == transport.EventResponse {
			events[i].Payload = append([]byte(nil), events[i].Payload...)
			s.spoil(&events[i])
		}
	}
	return n, err
}

func TestWrongResponsesAreCounted(t *testing.T) {
	for failure, spoil := range map[string]func(*transport.Event){
		kv.FailureChecksum.String(): func(e *transport.Event) {
			if len(e.Payload) > kv.HeaderSize {
				e.Payload[len(e.Payload)-1] ^= 1
			}
		},
		kv.FailureKey.String():    func(e *transport.Event) { e.Payload[1] ^= 1 },
		kv.FailureStatus.String(): func(e *transport.Event) { e.Payload[0] = 1 },
		kv.FailureShort.String():  func(e *transport.Event) { e.Payload = e.Payload[:7] },
		kv.FailureSize.String(): func(e *transport.Event) {
			e.Payload = append(e.Payload, 0)
		},
		kv.FailureStale.String(): func(e *transport.Event) {
			copy(e.Payload[8:], []byte{0, 0, 0, 0x80})
		},
	} {
		t.Run(failure, func(t *testing.T) {
			driver := wrapped{memory.NewDriver(),
				func(w transport.Worker) transport.Worker { return spoiler{w, spoil} }}
			_, clients := runUntil(t, cluster(t, driver, testConfig(), config.IdleYield), 1, 100)
			require.Positive(t, clients[0].Clients[0].Failures[failure], "%v",
				clients[0].Clients[0].Failures)
		})
	}
}

// TestWrongTwice checks that a read-modify-write with two wrong responses counts as one operation,
// and that its read is verified as rarely as other reads.
func TestWrongTwice(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight, cfg.VerifyEvery = 1, 2
	require.NoError(t, cfg.Mix.Set("rmw:1"))
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
	take := func(ops uint64) {
		client.Begin(hour(1))
		require.NoError(t, client.Load(1))
		for client.Counts.Ops < ops {
			require.NoError(t, errors.Join(iterate(client, true), daemon.Step()))
		}
		require.NoError(t, drainInTest(client, daemon))
	}
	take(100)
	require.EqualValues(t, 50, client.Counts.Sums)
	client.Worker = spoiler{client.Worker, func(e *transport.Event) { e.Payload = e.Payload[:7] }}
	take(100)
	report := client.Report(record.ThreadReport{})
	require.Zero(t, report.VerifiedKeys)
	require.GreaterOrEqual(t, report.Failures[kv.FailureShort.String()], uint64(200))
}

func TestResponsesToNobody(t *testing.T) {
	// Every response gets a token that no call has.
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return spoiler{w, func(e *transport.Event) { e.Token += 1 << 40 }}
	}}
	cfg := testConfig()
	cfg.InFlight = 1
	ranks := cluster(t, driver, cfg, config.IdleYield)
	client, daemon := ranks[1].threads[0].client, ranks[0].threads[0].daemon
	client.Begin(hour(1))
	require.NoError(t, client.Load(1))
	for client.Counts.UnknownToken == 0 {
		require.NoError(t, errors.Join(iterate(client, true), daemon.Step()))
	}
	require.Equal(t, map[string]uint64{"unknown token": 1}, client.Failures())
	client.InFlight = 0
}

// holder polls nothing while holding is set.
type holder struct {
	transport.Worker
	holding *atomic.Bool
}

func (h holder) Poll(events []transport.Event) (int, error) {
	if h.holding.Load() {
		return 0, nil
	}
	return h.Worker.Poll(events)
}

func TestLateAnswersDoNotSpoilTheNextWindow(t *testing.T) {
	var holding atomic.Bool
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return w
	}}
	ranks := cluster(t, driver, testConfig(), config.IdleYield)
	client := ranks[1].threads[0].client
	client.Worker = holder{client.Worker, &holding}
	client.DrainLimit = 10 * time.Millisecond

	holding.Store(true)
	_, clients, err := runAll(t, ranks, record.Window{Duration: 10 * time.Millisecond,
		SampleEvery: 1})
	require.NoError(t, err)
	require.EqualValues(t, 8, clients[0].Clients[0].Lost)

	// These calls are still open, so a new window would have twice as many in flight.
	_, clients, err = runAll(t, ranks, record.Window{Duration: 10 * time.Millisecond,
		SampleEvery: 1})
	require.ErrorContains(t, err, "8 calls of the last window were not answered")
	require.Zero(t, clients[0].Clients[0].ElapsedNS, "it did not measure")

	holding.Store(false)
	client.DrainLimit = 10 * time.Second
	server, clients := runUntil(t, ranks, 1, 100)
	require.Empty(t, clients[0].Clients[0].Failures)
	require.Zero(t, clients[0].Clients[0].Lost)
	require.Zero(t, client.InFlight)
	require.Zero(t, server.Daemons[0].Rejected)
}
