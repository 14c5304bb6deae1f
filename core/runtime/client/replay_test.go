package client

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
)

// slots is a worker whose payloads arrive in slots that are used again. In each message of lose,
// one word of the value stays what it was.
type slots struct {
	transport.Worker
	memory [][]byte
	next   int
	lose   int // every so many messages
	lost   *int
}

func newSlots(w transport.Worker, n, lose int, lost *int) *slots {
	s := &slots{Worker: w, lose: lose, lost: lost}
	for range n {
		s.memory = append(s.memory, make([]byte, 4096))
	}
	return s
}

func (s *slots) Poll(events []transport.Event) (int, error) {
	n, err := s.Worker.Poll(events)
	for i := range events[:n] {
		e := &events[i]
		slot := s.memory[s.next%len(s.memory)]
		s.next++
		kept := binary.LittleEndian.Uint64(slot[kv.HeaderSize+8:])
		payload := slot[:copy(slot, e.Payload)]
		if s.next%s.lose == 0 && s.next > len(s.memory) && len(payload) > kv.HeaderSize {
			binary.LittleEndian.PutUint64(payload[kv.HeaderSize+8:], kept)
			*s.lost++
		}
		e.Payload = payload
	}
	return n, err
}

// TestReplayDetectsLostParts checks that a word which does not reach a slot is found, however many
// slots there are, although the same requests pass again and again.
func TestReplayDetectsLostParts(t *testing.T) {
	for name, c := range map[string]struct {
		shape func(*config.Config)
		wrong kv.Failure
	}{
		"written": {func(c *config.Config) { c.ReadRatio = 0 }, kv.FailureStatus},
		"read":    {func(c *config.Config) { c.ReadRatio = 1 }, kv.FailureChecksum},
		"echo": {func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
			kv.FailureChecksum},
		"sink": {func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceSink, 0 },
			kv.FailureStatus},
	} {
		for _, n := range []int{8, 64, 128, 1024} {
			t.Run(name, func(t *testing.T) {
				cfg := testConfig()
				c.shape(&cfg)
				lost := 0
				slotted := func(w transport.Worker) transport.Worker {
					return newSlots(w, n, 7, &lost)
				}
				client, server := slotted, slotted
				if cfg.ReadRatio == 0 {
					client = nil
				} else {
					server = nil
				}
				p := newPair(t, cfg, client, server)
				p.begin(t, 1)
				p.untilOps(t, 20_000)
				require.Positive(t, lost)
				found := p.counts.failures[c.wrong]
				// values that nobody writes stay the same, so a slot may get the same one again
				same := 0.0
				if cfg.ReadRatio == 1 && cfg.Service == config.ServiceStore {
					same = 2 * float64(lost) / float64(cfg.Keys)
				}
				require.InDelta(t, lost, float64(found), float64(2*cfg.InFlight)+same,
					"%d slots", n)
				p.drain(t)
			})
		}
	}
}

// withholder keeps the response with a token back until release is set.
type withholder struct {
	transport.Worker
	token    transport.Token
	withheld []transport.Event
	release  bool
}

func (w *withholder) Poll(events []transport.Event) (int, error) {
	if w.release && len(w.withheld) > 0 {
		events[0], w.withheld = w.withheld[0], nil
		return 1, nil
	}
	n, err := w.Worker.Poll(events)
	for i, e := range events[:n] {
		if e.Kind == transport.EventResponse && e.Token == w.token && !w.release {
			e.Payload = append([]byte(nil), e.Payload...)
			w.withheld = append(w.withheld, e)
			return i + copy(events[i:], events[i+1:n]), err
		}
	}
	return n, err
}

// TestReplaySkipsACallInFlight withholds one response for several passes, with a worker that takes
// all calls and with one that takes some. All other calls are issued in each pass.
func TestReplaySkipsACallInFlight(t *testing.T) {
	for _, service := range []config.Service{config.ServiceStore, config.ServiceEcho} {
		for _, scarce := range []bool{false, true} {
			cfg := testConfig()
			cfg.Service, cfg.ReadRatio = service, 1
			cfg.Burn = config.Duration(20 * time.Microsecond)
			issued := map[transport.Token]int{}
			hold := &withholder{token: 5}
			p := newPair(t, cfg, func(w transport.Worker) transport.Worker {
				hold.Worker = wiringtest.Watched{Worker: w,
					Posted: func(op *transport.Op) { issued[op.Token]++ }}
				if scarce {
					return &wiringtest.Stingy{Worker: hold}
				}
				return hold
			}, nil)
			p.begin(t, 1)
			const passes = 3
			began, first := time.Now(), p.inFlight
			p.until(t, func() bool {
				require.True(t, scarce || p.inFlight == cfg.InFlight)
				return p.counts.ops >= uint64(passes*len(p.calls))
			})
			require.Empty(t, p.failures())
			// Each call after the first ones was burned for, also where a batch was cut in two.
			all := -first
			for _, n := range issued {
				all += n
			}
			require.GreaterOrEqual(t, time.Since(began), time.Duration(all)*time.Duration(cfg.Burn))
			for token, n := range issued {
				if token == hold.token {
					require.Equal(t, 1, n)
				} else {
					require.InDelta(t, passes, n, 1, "call %d", token)
				}
			}
			require.Len(t, issued, len(p.calls))
			hold.release = true
			p.drain(t)
			require.Zero(t, p.counts.unknownToken)
		}
	}
}
