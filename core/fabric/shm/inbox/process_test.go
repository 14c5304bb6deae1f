package inbox

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// testDriver opens what this package opens, with the options backing and ring.
type testDriver struct{}

func (testDriver) Info() transport.Info {
	return transport.Info{Options: []transport.Option{
		{Name: "backing", Type: transport.TypeString, Default: string(shm.Memfd)},
		{Name: "ring", Type: transport.TypeString, Default: Auto}}}
}

func (testDriver) Open(_ context.Context, c transport.Config) (transport.Transport, error) {
	cfg := testConfig()
	cfg.Backing = shm.Backing(c.Options.String("backing"))
	cfg.Ring, cfg.InFlight, cfg.MaxPayload = c.Options.String("ring"), c.InFlight, c.MaxPayload
	return Open(cfg)
}

// startEcho starts a child and connects a worker of this process to it.
func startEcho(t *testing.T, backing string) (transport.Worker, *fabrictest.Echoer) {
	_, w, child := fabrictest.Connect(t, testDriver{},
		fabrictest.Rank{Options: map[string]string{"backing": backing}})
	return w, child
}

func TestBetweenProcesses(t *testing.T) {
	for _, backing := range []string{"memfd", "named"} {
		t.Run(backing, func(t *testing.T) {
			before := namedSegments(t)
			w, _ := startEcho(t, backing)
			require.Equal(t, before, namedSegments(t),
				"the last process that maps a segment unlinks it")
			for size := 0; size <= 4096; size += 37 {
				payload := []byte(strings.Repeat(string(rune('a'+size%26)), size))
				fabrictest.Call(t, w, transport.Token(size), payload)
				e := fabrictest.Next(t, w)
				require.Equal(t, transport.EventResponse, e.Kind)
				require.EqualValues(t, size, e.Token)
				require.Equal(t, string(payload), string(e.Payload))
			}
		})
	}
}

func namedSegments(t *testing.T) (names []string) {
	entries, err := os.ReadDir("/dev/shm")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "transportbench-") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestKilledPeerIsReported(t *testing.T) {
	before := namedSegments(t)
	w, child := startEcho(t, "memfd")
	fabrictest.Call(t, w, 1, []byte("before"))
	require.Equal(t, transport.EventResponse, fabrictest.Next(t, w).Kind)
	child.Kill()
	e := fabrictest.Next(t, w)
	require.Equal(t, transport.EventPeerLost, e.Kind)
	require.EqualValues(t, 0, e.Peer)
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
	require.Equal(t, before, namedSegments(t))
}

// TestReplyBeforeClose: a reply out of order arrives although its sender closes right after
// it.
func TestReplyBeforeClose(t *testing.T) {
	for _, name := range Rings() {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, withRing(name))
			exchange := func(calls, replies int) {
				for i := range calls {
					fabrictest.Call(t, a, transport.Token(i), []byte("call"))
				}
				events := make([]transport.Event, 8)
				n, err := b.Poll(events)
				require.NoError(t, err)
				require.Equal(t, calls, n)
				for i := range replies { // the last first
					e := events[calls-1-i]
					_, err := b.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer,
						Token: e.Token}})
					require.NoError(t, err)
				}
				require.NoError(t, b.Flush())
			}
			exchange(1, 1)
			require.Equal(t, transport.EventResponse, fabrictest.Next(t, a).Kind)
			exchange(2, 1)
			require.NoError(t, b.Close())
			e := fabrictest.Next(t, a)
			require.Equal(t, transport.EventResponse, e.Kind)
			require.EqualValues(t, 1, e.Token)
			require.Equal(t, transport.EventPeerLost, fabrictest.Next(t, a).Kind)
		})
	}
}
