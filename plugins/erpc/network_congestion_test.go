package erpc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// TestNetworkRateIsInForce: what leaves a session is what its rate allows, in both
// directions: a response comes as slowly as it is pulled.
func TestNetworkRateIsInForce(t *testing.T) {
	const rate, size = 100_000_000, 4 << 20
	for name, sizes := range map[string]func(request bool) int{
		"request":  func(request bool) int { return map[bool]int{true: size, false: 16}[request] },
		"response": func(request bool) int { return map[bool]int{true: 16, false: size}[request] },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(1, datagram.Faults{})
			s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: size}, map[string]string{
				"link-rate": "1000000000", "timely-least-rate": "100000000", "timely-low": "1ns", "timely-high": "1ns"})
			request := false
			next := func(*rand.Rand) int { // asked for a request's size, then for its response's
				request = !request
				return sizes(request)
			}
			a, b := n.member(t, s, 1472, 1, next), n.member(t, s, 1472, 0, next)
			join(t, a, b)
			// Every round trip is too long for these thresholds, and so the rate stays the
			// least.
			a.w.sessions[0].timely.rate = rate
			took := n.run(t, 10*second, a, b)
			require.InEpsilon(t, float64(second)*size/rate, float64(took), 0.05)
			require.NotZero(t, a.w.counts.paced)
		})
	}
}

// incast is what many clients get through a narrow way to one server, in bytes per
// second, and what was dropped on it for want of room.
func incast(t *testing.T, clients, calls int, congestion string) (goodput float64, dropped, timeouts uint64, longest int64) {
	n := newNetwork(9, datagram.Faults{})
	n.tick = 4000
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 16, InFlight: 4, MaxPayload: 16 << 10}, map[string]string{
		"congestion": congestion, "window": "8", "credits": "32", "rto": "5ms",
		"link-rate": "1000000000", "timely-low": "50us", "timely-high": "1ms", "timely-min-rtt": "10us", "timely-step": "5000000"})
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
	return float64(clients*calls*16<<10) / float64(took) * 1e9, port.dropped, timeouts, port.most
}

// TestNetworkIncast: with sixteen clients the way to a server stays in use, and congestion
// control is why.
func TestNetworkIncast(t *testing.T) {
	if raceDetector {
		t.Skip("one thread and much arithmetic, of which the race detector makes ten times as much")
	}
	alone, _, _, _ := incast(t, 1, 400, congestionTimely)
	timely, dropped, timeouts, longest := incast(t, 16, 200, congestionTimely)
	none, droppedNone, timeoutsNone, longestNone := incast(t, 16, 200, congestionNone)
	t.Logf("one client %.0f MB/s; sixteen with timely %.0f MB/s, %d dropped, %d timeouts, waits to %d us; without %.0f MB/s, %d dropped, %d timeouts, waits to %d us",
		alone/1e6, timely/1e6, dropped, timeouts, longest/1000, none/1e6, droppedNone, timeoutsNone, longestNone/1000)
	require.Greater(t, timely, alone/2)
	require.Greater(t, timely, 1.2*none)
	require.NotZero(t, droppedNone)
}
