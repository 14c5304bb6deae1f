package calibration

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

// prompt is a sound worker that answers a call at the next Poll.
type prompt struct {
	soundWorker
	payload []byte
}

func (p *prompt) Post(ops []transport.Op) (int, error) {
	p.payload = ops[0].Payload
	return len(ops), nil
}

func (p *prompt) Poll(events []transport.Event) (int, error) {
	if p.payload == nil {
		return 0, nil
	}
	events[0] = transport.Event{Kind: transport.EventResponse, Payload: p.payload,
		Size: len(p.payload)}
	p.payload = nil
	return 1, nil
}

// BenchmarkDelay reports the mean delay that a loop that polls sees over the delay that is
// injected. It takes the least of many means, as interrupts make a mean larger.
func BenchmarkDelay(b *testing.B) {
	const calls = 64
	for _, delay := range []time.Duration{10, 20, 50, 100, 200, 500, 2000, 10_000} {
		b.Run(delay.String(), func(b *testing.B) {
			minimum := func(in injection) float64 {
				w, err := newWorker(&prompt{}, in, 1, 64, 1)
				require.NoError(b, err)
				defer w.held.close()
				ops, events := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 32)}},
					make([]transport.Event, 64)
				minimum := math.Inf(1)
				for range max(b.N/calls, 200) {
					began := clock.Now()
					for range calls {
						_, _ = w.Post(ops)
						for n := 0; n == 0; {
							n, _ = w.Poll(events)
						}
					}
					minimum = min(minimum, float64(clock.Now()-began)/calls)
				}
				return minimum
			}
			var in injection
			without := minimum(in)
			in.delay.mean = int64(delay)
			b.ReportMetric((minimum(in)-without)/float64(delay), "seen/injected")
		})
	}
}
