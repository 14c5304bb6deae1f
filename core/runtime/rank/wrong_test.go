package rank

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

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
				func(w transport.Worker) transport.Worker { return wiringtest.Spoil(w, spoil) }}
			_, clients := runUntil(t, cluster(t, driver, testConfig(), config.IdleYield), 1, 100)
			require.Positive(t, clients[0].Clients[0].Failures[failure], "%v",
				clients[0].Clients[0].Failures)
		})
	}
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
	require.Zero(t, server.Daemons[0].Rejected)
}
