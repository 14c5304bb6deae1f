package erpc

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/transport"
)

// incastVariable is a number of rounds whose medians are compared. Without it there is one round
// and no comparison.
const incastVariable = "ERPC_TEST_INCAST"

// realIncast sends requests from clients on one host to one server on another, over a wire of 12.5
// MB/s with a short queue and into a small socket buffer. Each request must be executed once and
// answered once.
func realIncast(t *testing.T, requests, clients int, congestion string) (goodput float64,
	sum counts, drops uint64) {
	a, b := hosts.Pair(t, hosts.Wire{Rate: 12_500_000, Queue: 64 << 10})
	const size = 16 << 10
	open := func(h *hosts.Host, rank, peers int, more map[string]string) (w *worker) {
		options := map[string]string{"provider": "udp", "address": h.Address.String(),
			"congestion": congestion, "window": "8", "credits": "32",
			"rto": "20ms", "link-rate": "12500000", "timely-least-rate": "200000",
			"timely-step":    "50000",
			"timely-min-rtt": "1ms", "timely-low": "3ms", "timely-high": "6ms",
			"timely-beta": "800000"}
		maps.Copy(options, more)
		values, err := transport.ParseOptions(schema, options)
		require.NoError(t, err)
		require.NoError(t, h.Do(func() error {
			r, err := Driver{}.Open(t.Context(), transport.Config{Rank: rank, Workers: 1,
				Peers: peers, InFlight: 4, MaxPayload: size, Options: values})
			if err != nil {
				return err
			}
			t.Cleanup(func() { require.NoError(t, r.Close()) })
			made, err := r.NewWorker(0)
			if err == nil {
				w = made.(*worker)
			}
			return err
		}))
		return w
	}
	request := false
	sizes := func(*rand.Rand) int { // called for a request's size, then for its response's
		request = !request
		return map[bool]int{true: size, false: messageHead}[request]
	}
	server := newMember(t, open(b, 0, clients, map[string]string{"receive-buffer": "32KiB"}), 1,
		0, sizes)
	members := []*member{server}
	for i := range clients {
		client := newMember(t, open(a, i+1, 1, nil), uint64(i), requests/clients, sizes)
		require.NoError(t,
			a.Do(func() error { return client.w.Connect(t.Context(), 0, server.w.Address()) }))
		require.NoError(t,
			b.Do(func() error {
				return server.w.Connect(t.Context(), transport.PeerID(i),
					client.w.Address())
			}))
		client.joined()
		server.joined()
		members = append(members, client)
	}
	begin := time.Now()
	for !every(members, (*member).done) {
		for _, m := range members {
			m.iterate()
		}
	}
	took := time.Since(begin)
	rest(t, 50*time.Millisecond, members...)
	for _, m := range members[1:] {
		require.Equal(t, requests/clients, m.answered)
		m.requireAtRest()
		sum.timeouts += m.w.counts.timeouts
		sum.retransmitted += m.w.counts.retransmitted
	}
	require.Equal(t, requests, server.served)
	for _, s := range server.w.ReadStats(nil) {
		if s.Name == "receive_drops" {
			drops = s.Value
		}
	}
	return float64(requests*size) / took.Seconds(), sum, drops
}

// TestIncast: sixteen clients call one server over sockets. Congestion loses no live peer; its cost
// is compared only if asked for.
func TestIncast(t *testing.T) {
	rounds, requests, compared := 1, 160, false
	if n, err := strconv.Atoi(os.Getenv(incastVariable)); err == nil && n > 0 {
		rounds, requests, compared = n, 2560, true
	}
	kinds := []struct {
		name       string
		clients    int
		congestion string
	}{{"one client", 1, congestionTimely}, {"sixteen, timely", 16, congestionTimely},
		{"sixteen, none", 16, congestionNone}}
	goodput := make([][]float64, len(kinds))
	retransmitted := make([][]float64, len(kinds))
	for range rounds {
		for i, k := range kinds {
			t.Run(k.name, func(t *testing.T) { // closes its ranks and hosts
				rate, c, drops := realIncast(t, requests, k.clients, k.congestion)
				goodput[i] = append(goodput[i], rate)
				retransmitted[i] = append(retransmitted[i], float64(c.retransmitted))
				t.Logf("%.1f MB/s, %d timeouts, %d packets retransmitted, %d dropped at the "+
					"server's socket", rate/1e6, c.timeouts, c.retransmitted, drops)
			})
		}
	}
	if !compared {
		return
	}
	median := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	alone, timely, none := median(goodput[0]), median(goodput[1]), median(goodput[2])
	t.Logf("share of one client's %.1f MB/s: timely %.2f, none %.2f; packets retransmitted: %.0f "+
		"and %.0f", alone/1e6, timely/alone, none/alone, median(retransmitted[1]),
		median(retransmitted[2]))
	require.Greater(t, timely, alone/2)
	require.Greater(t, median(retransmitted[2]), 1.25*median(retransmitted[1]))
}
