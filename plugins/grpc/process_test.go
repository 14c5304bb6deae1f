package grpc

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// processPayload and processInFlight are the sizes of ranks in two processes.
const processPayload, processInFlight = 64 << 10, 64

// openWith opens a rank with one worker. options are separated by blanks.
func openWith(options string, payload, inFlight int) (transport.Transport, *worker, error) {
	tr, w, err := rankWith(options, payload, inFlight).Open(Driver{})
	if err != nil {
		return nil, nil, err
	}
	return tr, w.(*worker), nil
}

func rankWith(options string, payload, inFlight int) fabrictest.Rank {
	r := fabrictest.Rank{Options: map[string]string{}, Peers: 4, MaxPayload: payload,
		InFlight: inFlight}
	for _, o := range strings.Fields(options) {
		key, value, _ := strings.Cut(o, "=")
		r.Options[key] = value
	}
	return r
}

// connectProcess connects a new worker to a new server process.
func connectProcess(tb testing.TB, options string) (*fabrictest.Echoer, *worker) {
	r := rankWith(options, processPayload, processInFlight)
	_, w, process := fabrictest.Connect(tb, Driver{}, r)
	return process, w.(*worker)
}

// TestKilledProcess kills a peer among large calls: Poll reports the loss, and Post refuses the
// peer. A peer that is only stopped for a while is not lost.
func TestKilledProcess(t *testing.T) {
	for _, options := range []string{"calls=stream", "calls=unary network=unix", "tls=true"} {
		t.Run(options, func(t *testing.T) {
			process, w := connectProcess(t, options)
			call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, processPayload)}}
			events := make([]transport.Event, 16)
			answered, lost := 0, false
			step := func() {
				if _, err := w.Post(call); err != nil {
					require.ErrorIs(t, err, transport.ErrPeerDown)
				}
				require.NoError(t, w.Flush())
				n, err := w.Poll(events)
				require.NoError(t, err)
				for _, e := range events[:n] {
					if e.Kind == transport.EventPeerLost {
						lost = true
					} else {
						answered++
					}
				}
				if n == 0 {
					require.NoError(t, w.Wait(time.Millisecond))
				}
			}
			require.Eventually(t, func() bool { step(); return answered >= 50 }, time.Minute,
				time.Microsecond)
			process.Pause()
			for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
				step()
			}
			require.False(t, lost)
			process.Resume()
			before := answered
			require.Eventually(t, func() bool { step(); return answered >= before+processInFlight },
				time.Minute, time.Microsecond)
			require.False(t, lost)
			process.Kill()
			require.Eventually(t, func() bool { step(); return lost }, time.Minute,
				time.Microsecond)
			_, err := w.Post(call)
			require.ErrorIs(t, err, transport.ErrPeerDown)
			require.Error(t, w.Silence(0))
		})
	}
}
