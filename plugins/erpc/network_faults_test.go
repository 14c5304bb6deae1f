package erpc

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

const second = int64(time.Second)

// mixed returns sizes that mostly fit into one packet.
func mixed(largest int) func(*rand.Rand) int {
	return func(r *rand.Rand) int {
		if r.IntN(4) > 0 {
			return r.IntN(64)
		}
		return r.IntN(largest + 1)
	}
}

// TestNetworkFaults: under all faults every request is executed once and answered once, with its
// own bytes, and nothing leaks.
func TestNetworkFaults(t *testing.T) {
	hard := faulty.Faults{Drop: 0.05, Duplicate: 0.05, Reorder: 0.05, Corrupt: 0.02, Delay: 0.02,
		DelayBy: 12 * time.Millisecond}
	for name, c := range map[string]struct {
		faults  faulty.Faults
		options map[string]string
	}{
		"none":       {},
		"drop":       {faults: faulty.Faults{Drop: 0.1}},
		"duplicate":  {faults: faulty.Faults{Duplicate: 0.3}},
		"reorder":    {faults: faulty.Faults{Reorder: 0.3}},
		"corrupt":    {faults: faulty.Faults{Corrupt: 0.1}},
		"delay":      {faults: faulty.Faults{Delay: 0.1, DelayBy: 20 * time.Millisecond}},
		"all":        {faults: hard},
		"one slot":   {faults: hard, options: map[string]string{"window": "1"}},
		"one credit": {faults: hard, options: map[string]string{"credits": "1"}},
		"eRPC's": {faults: hard, options: map[string]string{"window": "8", "credits": "32",
			"timely-low": "50us", "timely-high": "1ms", "timely-min-rtt": "2us"}},
		"not paced": {faults: hard, options: map[string]string{"congestion": "none"}},
		"slow, no faults": {options: map[string]string{"link-rate": "20000000", "timely-low": "1us",
			"timely-high": "10us", "rto": "50ms"}},
		"slow": {faults: hard, options: map[string]string{"link-rate": "20000000",
			"timely-low": "1us", "timely-high": "10us"}},
	} {
		t.Run(name, func(t *testing.T) {
			var runs [2]counts
			for i := range runs {
				n := newNetwork(42, c.faults)
				s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 20,
					MaxPayload: 3000}, c.options)
				a, b := n.member(t, s, 256, 400, mixed(3000)), n.member(t, s, 256, 400, mixed(3000))
				b.defers = true
				join(t, a, b)
				n.run(t, 100*second, a, b)
				for _, m := range []*member{a, b} {
					require.Equal(t, 400, m.answered)
					require.Equal(t, 400, m.served)
					m.requireAtRest()
				}
				if c.faults == (faulty.Faults{}) {
					require.Zero(t, a.w.counts.outOfOrder+a.w.counts.timeouts,
						"packets out of order and timeouts without faults")
				}
				if c.faults.Corrupt > 0 {
					require.NotZero(t, a.w.counts.corrupt)
				}
				if c.faults.Drop > 0 {
					require.NotZero(t, a.w.counts.timeouts)
				}
				runs[i] = a.w.counts
			}
			require.Equal(t, runs[0], runs[1], "the same seed must give the same run")
		})
	}
}

// TestNetworkStar: many clients call one server under faults.
func TestNetworkStar(t *testing.T) {
	n := newNetwork(7, faulty.Faults{Drop: 0.02, Duplicate: 0.02, Reorder: 0.02})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 16, InFlight: 8, MaxPayload: 1000}, nil)
	server := n.member(t, s, 256, 20, mixed(1000))
	members := []*member{server}
	for range 16 {
		client := n.member(t, s, 256, 100, mixed(1000))
		join(t, client, server)
		members = append(members, client)
	}
	n.run(t, 100*second, members...)
	for _, m := range members {
		m.requireAtRest()
	}
	require.Equal(t, 16*20, server.answered)
}

// TestNetworkRequestNumbersWrap: request numbers wrap around to 0.
func TestNetworkRequestNumbersWrap(t *testing.T) {
	n := newNetwork(3, faulty.Faults{Drop: 0.02, Duplicate: 0.05, Reorder: 0.05})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 8, MaxPayload: 64},
		map[string]string{"window": "8"})
	a, b := n.member(t, s, 256, 400, mixed(64)), n.member(t, s, 256, 400, mixed(64))
	join(t, a, b)
	n.flying = nil // the first hellos: they have other numbers
	for _, m := range []*member{a, b} {
		first := -20 * 8
		m.w.sessions[0].beginAt(uint32(first))
	}
	n.run(t, 100*second, a, b)
	a.requireAtRest()
	b.requireAtRest()
}

// TestNetworkLarge: messages of more than 8 MiB in both directions.
func TestNetworkLarge(t *testing.T) {
	const size = maxMessage
	n := newNetwork(5, faulty.Faults{Drop: 0.0005, Duplicate: 0.01})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: size}, nil)
	whole := func(*rand.Rand) int { return size }
	a, b := n.member(t, s, 8192, 1, whole), n.member(t, s, 8192, 0, whole)
	join(t, a, b)
	n.run(t, 100*second, a, b)
	require.Equal(t, size, a.bytes)
	require.NotZero(t, a.w.port.(*simulated).placed)
	a.requireAtRest()
}

// TestNetworkSlowLoop: timeouts also expire if every iteration of the loop takes longer than the
// part of it that counts.
func TestNetworkSlowLoop(t *testing.T) {
	n := newNetwork(8, faulty.Faults{Drop: 0.2})
	n.tick = 20 * int64(time.Millisecond)
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 1000}, nil)
	a, b := n.member(t, s, 256, 50, mixed(1000)), n.member(t, s, 256, 50, mixed(1000))
	join(t, a, b)
	n.run(t, 1000*second, a, b)
	require.NotZero(t, a.w.counts.timeouts)
}

// TestNetworkLossAfterRest: a lost packet is retransmitted an RTO later, even if the worker had not
// polled for a long time before the post.
func TestNetworkLossAfterRest(t *testing.T) {
	n := newNetwork(9, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100}, nil)
	a, b := n.member(t, s, 256, 1, mixed(100)), n.member(t, s, 256, 0, mixed(100))
	join(t, a, b)
	n.run(t, second, a, b)
	n.pass(100 * second)
	n.faults.Drop = 1
	a.calls++
	a.iterate()
	n.faults.Drop = 0
	require.Less(t, n.run(t, second, a, b), 2*s.rto)
	require.EqualValues(t, 1, a.w.counts.timeouts)
}
