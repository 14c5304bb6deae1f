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
