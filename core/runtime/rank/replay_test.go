package rank

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// observer shows the calls that a client posts.
type observer struct {
	transport.Worker
	post func(*transport.Op)
}

func (o observer) Post(ops []transport.Op) (int, error) {
	n, err := o.Worker.Post(ops)
	for i := range ops[:n] {
		o.post(&ops[i])
	}
	return n, err
}

// TestReplayedRequestsAreTheDrawnOnes checks that a client which replays issues what its generator
// draws, in the same order, and again from the start.
func TestReplayedRequestsAreTheDrawnOnes(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"uniform": func(*config.Config) {},
		"zipfian": func(c *config.Config) {
			c.Distribution, c.ReadRatio = config.DistributionZipfian, 0.9
		},
		"sequential": func(c *config.Config) {
			c.Distribution = config.DistributionSequential
		},
		"a pattern": func(c *config.Config) {
			require.NoError(t, c.Pattern.Set("lookup:7,read:6,write:3"))
		},
		"sizes that vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:0-300"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			shape(&cfg)
			n, replayed := cfg.Requests()
			require.True(t, replayed)
			generator, r := workload.New(cfg, 0), workload.Request{}
			drawn := make([]workload.Request, n)
			for i := range drawn {
				generator.Next(&drawn[i])
			}
			issued := 0
			driver := wrapped{memory.NewDriver(),
				func(w transport.Worker) transport.Worker {
					return observer{w, func(op *transport.Op) {
						if op.Kind != transport.OpCall {
							return
						}
						r = drawn[issued%n]
						key, _ := kv.KeyOf(op.Payload)
						if key != r.Key || len(op.Payload) != kv.HeaderSize+r.Size {
							t.Errorf("call %d is for key %d with %d bytes, drawn was %+v",
								issued, key,
								len(op.Payload), r)
						}
						issued++
					}}
				}}
			_, clients := runUntil(t, cluster(t, driver, cfg, config.IdleYield), 64, uint64(3*n/64))
			require.Empty(t, clients[0].Clients[0].Failures)
			require.Greater(t, issued, 2*n)
		})
	}
}

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
		wrong func(daemonRejected, clientSums uint64) uint64
	}{
		"written": {func(c *config.Config) { c.ReadRatio = 0 },
			func(rejected, _ uint64) uint64 { return rejected }},
		"read": {func(c *config.Config) { c.ReadRatio = 1 },
			func(_, sums uint64) uint64 { return sums }},
		"echo": {func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
			func(_, sums uint64) uint64 { return sums }},
		"sink": {func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceSink, 0 },
			func(rejected, _ uint64) uint64 { return rejected }},
	} {
		for _, n := range []int{8, 64, 128, 1024} {
			t.Run(name, func(t *testing.T) {
				cfg := testConfig()
				c.shape(&cfg)
				ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
				client, daemon := ranks[1].threads[0].client, ranks[0].threads[0].daemon
				lost := 0
				if cfg.ReadRatio == 0 {
					daemon.Worker = newSlots(daemon.Worker, n, 7, &lost)
				} else {
					client.Worker = newSlots(client.Worker, n, 7, &lost)
				}
				client.Begin(hour(1))
				require.NoError(t, client.Load(1))
				for client.Counts.Ops < 20_000 {
					require.NoError(t, iterate(client, true))
					require.NoError(t, daemon.Step())
				}
				require.Positive(t, lost)
				found := c.wrong(daemon.Counts.Outcomes[kv.OutcomeRejected],
					client.Counts.Failures[kv.FailureChecksum])
				// values that nobody writes stay the same, so a slot may get the same one again
				same := 0.0
				if cfg.ReadRatio == 1 && cfg.Service == config.ServiceStore {
					same = 2 * float64(lost) / float64(cfg.Keys)
				}
				require.InDelta(t, lost, float64(found), float64(2*cfg.InFlight)+same,
					"%d slots", n)
				client.Worker, daemon.Worker = unslot(client.Worker), unslot(daemon.Worker)
				require.NoError(t, drainInTest(client, daemon))
			})
		}
	}
}

func unslot(w transport.Worker) transport.Worker {
	if s, ok := w.(*slots); ok {
		return s.Worker
	}
	return w
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
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			client, daemon := ranks[1].threads[0].client, ranks[0].threads[0].daemon
			issued := make([]int, len(client.Calls))
			posts := observer{client.Worker, func(op *transport.Op) { issued[op.Token]++ }}
			hold := &withholder{Worker: posts, token: 5}
			client.Worker = hold
			if scarce {
				client.Worker = &stingy{Worker: hold}
			}
			client.Begin(hour(1))
			require.NoError(t, client.Load(1))
			const passes = 3
			began, first := time.Now(), int(client.InFlight)
			for client.Counts.Ops < uint64(passes*len(client.Calls)) {
				require.NoError(t, errors.Join(iterate(client, true), daemon.Step()))
				if !scarce {
					require.Equal(t, cfg.InFlight, client.InFlight)
				}
			}
			require.Empty(t, client.Failures())
			// Each call after the first ones was burned for, also where a batch was cut in two.
			all := -first
			for _, n := range issued {
				all += n
			}
			require.GreaterOrEqual(t, time.Since(began), time.Duration(all)*time.Duration(cfg.Burn))
			for token, n := range issued {
				if token == int(hold.token) {
					require.Equal(t, 1, n)
				} else {
					require.InDelta(t, passes, n, 1, "call %d", token)
				}
			}
			hold.release = true
			require.NoError(t, drainInTest(client, daemon))
			require.Zero(t, client.Counts.UnknownToken)
		}
	}
}
