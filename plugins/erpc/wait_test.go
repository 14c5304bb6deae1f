package erpc

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

// TestWaitThroughLoss: workers that sleep without a limit whenever there is nothing to poll wake up
// for retransmissions and for packets in the wheel.
func TestWaitThroughLoss(t *testing.T) {
	for _, provider := range []string{providerUDP, providerSoft} {
		t.Run(provider, func(t *testing.T) {
			workers := opened(t, 2, transport.Config{InFlight: 4, MaxPayload: 5000},
				map[string]string{"provider": provider, "mtu": "512",
					"rto": "1ms", "rto-backoff": "2", "fault-drop": "20000",
					"fault-reorder":   "10000",
					"fault-duplicate": "10000",
					"link-rate":       "50000000", "timely-least-rate": "5000000",
					"timely-low":  "1us",
					"timely-high": "10us"})
			a, b := newMember(t, workers[0], 1, 150, mixed(4000)),
				newMember(t, workers[1], 2, 0, mixed(4000))
			join(t, a, b)
			var done atomic.Bool
			var both sync.WaitGroup
			both.Go(func() {
				for !done.Load() {
					served := b.served
					if b.iterate(); b.served > served {
						continue
					}
					if err := b.w.Wait(time.Hour); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for !a.done() {
				answered := a.answered
				if a.iterate(); a.answered > answered {
					continue
				}
				if err := a.w.Wait(time.Hour); err != nil {
					t.Error(err)
					break
				}
			}
			done.Store(true)
			b.w.Wake()
			both.Wait()
			require.Equal(t, 150, a.answered)
			require.Equal(t, 150, b.served)
			require.NotZero(t, a.w.counts.timeouts)
			require.NotZero(t, a.w.counts.paced)
			require.NotZero(t, a.w.counts.parked)
			require.NotZero(t, b.w.counts.parked)
		})
	}
}

// TestIdleTimeIsCreditedOnce: time without polls does not count against a handshake, and a Wait
// after it does not credit it again.
func TestIdleTimeIsCreditedOnce(t *testing.T) {
	n := newNetwork(1, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100}, nil)
	a, b := n.member(t, s, 256, 0, nil), n.member(t, s, 256, 0, nil)
	a.w.waiter = sleeper{n}
	require.NoError(t, a.w.Connect(t.Context(), 0, b.w.Address()))
	left := func() int64 { return a.w.sessions[0].connectDeadline - n.now }
	for range 20 {
		before := left()
		_, err := a.w.Poll(a.events)
		require.NoError(t, err)
		n.pass(second)
		require.NoError(t, a.w.Wait(time.Hour))
		_, err = a.w.Poll(a.events)
		require.NoError(t, err)
		require.Less(t, left(), before)
	}
}

// sleeper is a [datagram.Waiter] in virtual time.
type sleeper struct{ network *network }

func (s sleeper) Wait(timeout time.Duration) error {
	s.network.pass(int64(timeout))
	return nil
}
func (s sleeper) Wake() {}
