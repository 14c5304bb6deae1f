package daemon

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
	"transportbench/core/transport"
)

// scripted is a worker that polls the given events once, takes all ops, and notes its calls.
type scripted struct {
	transport.Worker
	name   string
	events []transport.Event
	order  *[]string
}

func (w *scripted) Poll(events []transport.Event) (int, error) {
	*w.order = append(*w.order, w.name)
	n := copy(events, w.events)
	w.events = nil
	return n, nil
}

func (w *scripted) Post(ops []transport.Op) (int, error) {
	*w.order = append(*w.order, fmt.Sprintf("%s: post %d", w.name, len(ops)))
	return len(ops), nil
}

func (*scripted) Flush() error { return nil }

// getOf returns a GET of a key of this rank.
func getOf(rank int) transport.Event {
	key := uint64(0)
	for kv.RankOf(key, 2) != rank {
		key++
	}
	return transport.Event{Kind: transport.EventRequest,
		Payload: kv.EncodeGet(make([]byte, kv.HeaderSize), key)}
}

// proxied returns the only daemon of rank 0 of two, with a worker and the links of its client.
func proxied(t *testing.T, cfg config.Config, worker, links transport.Worker) *Daemon {
	cfg.Topology = config.TopologyMeshProxied
	require.NoError(t, cfg.Validate())
	w := wiring.Wiring{Config: cfg}
	d, err := New(w, 0, config.IdleYield, worker)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.NoError(t, d.ServeLinks(w, links, []*loop.LinkTrace{{}}))
	return d
}

// TestSendPoll checks the order of a daemon's work: with send-poll, a reply to another rank is
// posted before the links of the clients are polled, and a forwarded call in the same iteration.
func TestSendPoll(t *testing.T) {
	for interleave, want := range map[config.Interleave][]string{
		"":                        {"poll", "scan", "poll: post 2"},
		config.InterleaveSendPoll: {"poll", "poll: post 1", "scan", "poll: post 1"},
	} {
		cfg := testConfig()
		cfg.Interleave, cfg.InFlight = interleave, 1
		var order []string
		d := proxied(t, cfg,
			&scripted{name: "poll", events: []transport.Event{getOf(0)}, order: &order},
			&scripted{name: "scan", events: []transport.Event{getOf(1)}, order: &order})
		require.NoError(t, d.Step())
		require.Equal(t, want, order)
	}
}

// TestResponsesToNoForward checks that a response without a forwarded call is an error. Otherwise a
// duplicate response would free its token twice, and two calls would share it.
func TestResponsesToNoForward(t *testing.T) {
	d := proxied(t, testConfig(), &scripted{}, &scripted{})
	for _, token := range []transport.Token{0, 1 << 40} {
		event := transport.Event{Kind: transport.EventResponse, Token: token}
		require.ErrorIs(t, d.respond(&event), transport.ErrCorrupt)
	}
	require.Len(t, d.proxy.forwards.free, len(d.proxy.forwards.list))
}

// TestDelegationBeyondLimit checks that a peer with more open requests than the run allows is an
// error, and no failure of the process.
func TestDelegationBeyondLimit(t *testing.T) {
	cfg := testConfig()
	cfg.Delegate, cfg.Daemons = true, 3
	w := wiring.Wiring{Config: cfg}
	d, err := New(w, 0, config.IdleYield, &scripted{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.NoError(t, d.Delegate(w, 0, &scripted{}))
	request := make([]byte, kv.HeaderSize)
	for key := uint64(0); kv.DaemonOf(key, cfg.Daemons) == 0; key++ {
		request[1] = byte(key + 1)
	}
	for i := 0; err == nil; i++ {
		require.LessOrEqual(t, i, len(d.delegation.forwards.list))
		err = d.route(&transport.Event{Kind: transport.EventRequest, Payload: request}, &d.out)
	}
	require.ErrorContains(t, err, "more open requests than")
	for !d.out.full() {
		d.out.add()
	}
	_, err = d.delegation.forwards.respond(&transport.Event{Kind: transport.EventResponse})
	require.ErrorContains(t, err, "more open requests than")
	_, err = d.delegation.forwards.respond(&transport.Event{Kind: transport.EventResponse,
		Token: 1 << 40})
	require.ErrorIs(t, err, transport.ErrCorrupt)
}
