package erpc

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// volumeVariable is the number of requests at each loss rate. Without it there are a few thousand.
const volumeVariable = "ERPC_TEST_VOLUME"

// opened opens ranks of one worker each and returns the workers, not connected.
func opened(t testing.TB, workers int, cfg transport.Config, raw map[string]string) []*worker {
	var all []*worker
	for i := range workers {
		cfg.Rank, cfg.Workers, cfg.Peers = i, 1, max(cfg.Peers, workers-1)
		var err error
		cfg.Options, err = transport.ParseOptions(schema, raw)
		require.NoError(t, err)
		r, err := Driver{}.Open(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		w, err := r.NewWorker(0)
		require.NoError(t, err)
		all = append(all, w.(*worker))
	}
	return all
}

// TestPlacedResponses: packets of a long response are received where they belong, though requests,
// responses to the peer and lost packets come in between.
func TestPlacedResponses(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"all arrive": {},
		"losses":     {"receive-buffer": "4KiB", "rto": "1ms", "rto-backoff": "2"},
	} {
		t.Run(name, func(t *testing.T) {
			const calls, mtu, packets = 200, 512, 20
			const full = mtu - headerSize
			response := false
			// called for a request's size, then for its response's
			sizes := func(r *rand.Rand) int {
				if response = !response; response {
					return full // its event has the packet's memory
				}
				return packets*full - r.IntN(2)*r.IntN(1000)
			}
			options := maps.Clone(options)
			options["provider"], options["mtu"], options["offload"] = providerUDP,
				strconv.Itoa(mtu), "off"
			workers := opened(t, 2, transport.Config{InFlight: 1, MaxPayload: packets * mtu},
				options)
			a, b := newMember(t, workers[0], 1, calls, sizes),
				newMember(t, workers[1], 2, calls, sizes)
			join(t, a, b)
			both := []*member{a, b}
			for !every(both, (*member).done) {
				a.iterate()
				for range a.random.IntN(3) {
					b.iterate()
				}
			}
			rest(t, 5*time.Millisecond, both...)
			for _, m := range both {
				require.Equal(t, calls, m.answered)
				require.Equal(t, calls, m.served)
				m.requireAtRest()
			}
			// Besides those of Post, each packet of a response has a copy unless it was placed.
			require.Less(t, a.w.counts.copies+b.w.counts.copies, uint64(2*calls*(2+packets-3)),
				"some were placed")
			if name == "losses" {
				require.Positive(t, a.w.counts.retransmitted)
			}
		})
	}
}

// TestVolume: at each loss rate, with duplicates and reordering, every request is executed once and
// answered once with its own bytes, and nothing leaks.
func TestVolume(t *testing.T) {
	requests := 4000
	if text := os.Getenv(volumeVariable); text != "" {
		var err error
		requests, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	for _, provider := range []string{providerUDP, providerSoft} {
		for _, loss := range []int{0, 1000, 10_000, 50_000} {
			t.Run(fmt.Sprintf("%s/%g%%", provider, float64(loss)/1e4), func(t *testing.T) {
				// Half when it is sent and half when it is received.
				half := strconv.Itoa(loss / 2)
				options := map[string]string{"provider": provider, "mtu": "256", "rto": "1ms",
					"rto-backoff": "2",
					"fault-drop":  half, "fault-duplicate": half, "fault-reorder": half}
				workers := opened(t, 2, transport.Config{InFlight: 64, MaxPayload: 1000}, options)
				a, b := newMember(t, workers[0], 1, requests/2, mixed(600)),
					newMember(t, workers[1], 2, requests/2, mixed(600))
				join(t, a, b)
				begin := time.Now()
				both := []*member{a, b}
				for !every(both, (*member).done) {
					a.iterate()
					b.iterate()
				}
				took := time.Since(begin)
				rest(t, 20*time.Millisecond, both...)
				for _, m := range both {
					require.Equal(t, requests/2, m.answered)
					require.Equal(t, requests/2, m.served)
					m.requireAtRest()
				}
				c := a.w.counts
				t.Logf("%d requests in %v, %.0f/s; at one worker: %d timeouts, %d packets "+
					"retransmitted, %d duplicate answers, %d packets out of order",
					requests, took.Round(time.Millisecond), float64(requests)/took.Seconds(),
					c.timeouts, c.retransmitted, c.duplicates, c.outOfOrder)
			})
		}
	}
}
