package erpc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestNetworkRateIsEnforced: a session sends at its rate in both directions; RFRs pace the
// response.
func TestNetworkRateIsEnforced(t *testing.T) {
	const rate, size = 100_000_000, 4 << 20
	for name, sizes := range map[string]func(request bool) int{
		"request":  func(request bool) int { return map[bool]int{true: size, false: 16}[request] },
		"response": func(request bool) int { return map[bool]int{true: 16, false: size}[request] },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(1, faulty.Faults{})
			s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 1,
				MaxPayload: size}, map[string]string{
				"link-rate": "1000000000", "timely-least-rate": "100000000", "timely-low": "1ns",
				"timely-high": "1ns"})
			request := false
			next := func(*rand.Rand) int { // called for a request's size, then for its response's
				request = !request
				return sizes(request)
			}
			a, b := n.member(t, s, 1472, 1, next), n.member(t, s, 1472, 0, next)
			join(t, a, b)
			// Every round trip exceeds the thresholds, so the rate stays at the minimum.
			a.w.sessions[0].timely.rate = rate
			took := n.run(t, 10*second, a, b)
			require.InEpsilon(t, float64(second)*size/rate, float64(took), 0.05)
			require.NotZero(t, a.w.counts.paced)
		})
	}
}

// incast returns the goodput in bytes per second of many clients over a narrow path to one server,
// the packets dropped on it, the timeouts, and the longest wait in its queue.
func incast(t *testing.T, clients, calls int, congestion string) (goodput float64,
	dropped, timeouts uint64, longest int64) {
	n := newNetwork(9, faulty.Faults{})
	n.tick = 4000
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 16, InFlight: 4, MaxPayload: 16 << 10},
		map[string]string{
			"congestion": congestion, "window": "8", "credits": "32", "rto": "5ms",
			"link-rate": "1000000000", "timely-low": "50us", "timely-high": "1ms",
			"timely-min-rtt": "10us", "timely-step": "5000000"})
	request := false
	sizes := func(*rand.Rand) int {
		request = !request
		return map[bool]int{true: 16 << 10, false: 16}[request]
	}
	server := n.member(t, s, 1472, 0, sizes)
	server.w.port.(*simulated).rate, server.w.port.(*simulated).room = 1e9, 100<<10
	members := []*member{server}
	for range clients {
		client := n.member(t, s, 1472, calls, sizes)
		join(t, client, server)
		members = append(members, client)
	}
	took := n.run(t, 100*second, members...)
	for _, m := range members[1:] {
		timeouts += m.w.counts.timeouts
		m.requireAtRest()
	}
	port := server.w.port.(*simulated)
	return float64(clients*calls*16<<10) / float64(took) * 1e9, port.dropped, timeouts, port.maximum
}

// TestNetworkIncast: congestion control keeps the path to a server in use with sixteen clients.
func TestNetworkIncast(t *testing.T) {
	if fabrictest.Race {
		t.Skip("single-threaded arithmetic, which the race detector slows down tenfold")
	}
	alone, _, _, _ := incast(t, 1, 400, congestionTimely)
	timely, dropped, timeouts, longest := incast(t, 16, 200, congestionTimely)
	none, droppedNone, timeoutsNone, longestNone := incast(t, 16, 200, congestionNone)
	t.Logf("one client %.0f MB/s; sixteen with timely %.0f MB/s, %d dropped, %d timeouts, waits "+
		"up to %d us; without %.0f MB/s, %d dropped, %d timeouts, waits up to %d us",
		alone/1e6, timely/1e6, dropped, timeouts, longest/1000, none/1e6, droppedNone, timeoutsNone,
		longestNone/1000)
	require.Greater(t, timely, alone/2)
	require.Greater(t, timely, 1.2*none)
	require.NotZero(t, droppedNone)
}
