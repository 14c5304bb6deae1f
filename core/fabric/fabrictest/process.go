package fabrictest

import (
	"bytes"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// Sizes calls an [Echo] of the driver with a payload of each size in bytes, and requires that the
// same bytes come back. A payload of one byte more than the largest size is refused.
func Sizes(t *testing.T, driver transport.Driver, options map[string]string, sizes ...int) {
	t.Helper()
	maximum := 0
	for _, size := range sizes {
		maximum = max(maximum, size)
	}
	_, w, _ := Connect(t, driver, Rank{Options: options, MaxPayload: maximum})
	payload := make([]byte, maximum)
	for i := range payload {
		payload[i] = byte(i * 7 >> 3)
	}
	for i, size := range sizes {
		at := min(i, maximum-size) // another alignment each time
		sent := payload[at : at+size]
		Call(t, w, transport.Token(i), sent)
		e := Next(t, w)
		require.Equal(t, transport.EventResponse, e.Kind)
		require.EqualValues(t, i, e.Token)
		require.True(t, bytes.Equal(sent, e.Payload), "payload of %d bytes", size)
	}
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, maximum+1)}})
	require.ErrorIs(t, err, transport.ErrTooLarge)
}

// Idle makes [Kill] kill a peer without calls in flight.
const Idle = -1

// Kill kills an [Echo] of the driver in the middle of calls with payloads of size bytes, or while
// it is Idle. It requires that Poll then reports the loss once and Post refuses more calls. It
// returns the caller and the number of the dead process.
func Kill(t *testing.T, driver transport.Driver, options map[string]string,
	size int) (tr transport.Transport, w transport.Worker, pid int) {
	t.Helper()
	tr, w, server := Connect(t, driver, Rank{Options: options, MaxPayload: max(size, 64),
		Headless: true})
	call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, max(size, 0))}}
	calls := 20 // answered before the death
	if size == Idle {
		calls = 1
	}
	events := make([]transport.Event, 16)
	deadline := time.Now().Add(time.Minute)
	for posted, answered, killed, lost := 0, 0, false, false; !lost; {
		require.True(t, time.Now().Before(deadline),
			"no loss is reported after a minute; %d calls were answered", answered)
		if size != Idle || posted < calls {
			n, err := w.Post(call)
			if err != nil {
				require.ErrorIs(t, err, transport.ErrPeerDown)
			}
			posted += n
			require.NoError(t, w.Flush())
		}
		n, err := w.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.False(t, lost, "an event after the loss")
			if lost = e.Kind == transport.EventPeerLost; !lost {
				answered++
			}
		}
		require.True(t, killed || !lost, "the peer is lost before it is killed")
		if answered >= calls && !killed {
			killed = true
			server.Kill()
		}
	}
	n, err := w.Poll(events)
	require.NoError(t, err)
	require.Zero(t, n, "events after the loss")
	_, err = w.Post(call)
	require.ErrorIs(t, err, transport.ErrPeerDown)
	return tr, w, server.PID
}

// Pause stops an [Echo] of the driver for a while. It requires that the peer is silent meanwhile,
// is not lost, and answers afterwards.
func Pause(t *testing.T, driver transport.Driver, options map[string]string, while time.Duration) {
	t.Helper()
	_, w, c := Connect(t, driver, Rank{Options: options})
	Call(t, w, 1, []byte("before"))
	require.Equal(t, transport.EventResponse, Next(t, w).Kind)
	c.Pause()
	Call(t, w, 2, []byte("while it is stopped"))
	events := make([]transport.Event, 1)
	for begin := time.Now(); time.Since(begin) < while; {
		n, err := w.Poll(events)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	c.Resume()
	require.Equal(t, transport.EventResponse, Next(t, w).Kind)
}

// Close requires that an [Echo] of the driver ends once its peer has closed, and has written
// nothing to its standard output that it did not send. command may change how the child is started.
func Close(t *testing.T, driver transport.Driver, options map[string]string,
	command ...func(*exec.Cmd)) {
	t.Helper()
	_, w, c := Connect(t, driver, Rank{Options: options}, command...)
	Call(t, w, 1, []byte("before"))
	require.Equal(t, transport.EventResponse, Next(t, w).Kind)
	require.NoError(t, w.Close())
	require.Empty(t, c.Rest())
	c.Wait()
}
