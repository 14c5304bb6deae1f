package calibration

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

// resolved returns what the options inject.
func resolved(t *testing.T, options map[string]string) (injection, error) {
	t.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(t, err)
	return resolve(values)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		want    injection
		problem string
	}{
		{nil, injection{}, ""},
		{map[string]string{"delay": "2us"}, injection{delay: delay{mean: 2000}}, ""},
		{map[string]string{"delay-distribution": "exponential"}, injection{}, ""},
		{map[string]string{"delay": "1us", "delay-distribution": "exponential"},
			injection{delay: delay{mean: 1000, random: true}}, ""},
		{map[string]string{"delay": "1us", "slow-delay": "5us", "slow-every": "4",
			"delay-distribution": "bimodal"},
			injection{delay: delay{mean: 1000, slow: 5000, slowEvery: 4}}, ""},
		{map[string]string{"stall": "74ms"}, injection{stall: stall{74e6, 1e9}}, ""},
		{map[string]string{"rate": "10", "client-time": "1us", "daemon-time": "2us"},
			injection{rate: 10, clientTime: 1000, daemonTime: 2000}, ""},
		{map[string]string{"delay-distribution": "bimodal"}, injection{},
			"bimodal delays need 1 or more"},
		{map[string]string{"slow-delay": "1us"}, injection{},
			"slow-delay and slow-every need bimodal"},
		{map[string]string{"stall": "1s", "stall-every": "1s"}, injection{},
			"must be shorter than stall-every"},
	} {
		got, err := resolved(t, c.options)
		if c.problem != "" {
			require.ErrorContains(t, err, c.problem)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v", c.options)
	}
}

func newTestHeld(t *testing.T) *held {
	h, err := newHeld(64, 100)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.close()) })
	return h
}

// TestHeldOrder checks that held events come by due time, those of the same time in the order of
// arrival, with the payload that they had.
func TestHeldOrder(t *testing.T) {
	h, random := newTestHeld(t), rand.New(rand.NewPCG(1, 2))
	slots := len(h.free)
	for range 50 {
		type arrival struct{ due, number int64 }
		var want []arrival
		payload := make([]byte, 8)
		for number := range int64(1 + random.IntN(slots)) {
			due := random.Int64N(20)
			want = append(want, arrival{due, number})
			binary.LittleEndian.PutUint64(payload, uint64(number))
			h.add(&transport.Event{Token: transport.Token(due), Payload: payload, Size: 8}, due)
		}
		slices.SortStableFunc(want, func(a, b arrival) int { return int(a.due - b.due) })
		var events []transport.Event
		for !h.empty() {
			var e transport.Event
			h.take(&e)
			events = append(events, e)
		}
		for i, e := range events {
			require.Equal(t, want[i], arrival{int64(e.Token),
				int64(binary.LittleEndian.Uint64(e.Payload))})
		}
		require.Len(t, events, len(want))
		h.release()
		require.Len(t, h.free, slots, "free slots")
	}
}

// TestHeldWithoutEnd checks the order and the allocations of a queue that is never empty, of equal
// delays and of some that are shorter.
func TestHeldWithoutEnd(t *testing.T) {
	h, now := newTestHeld(t), int64(0)
	kept := len(h.free) / 2
	add := func() {
		due := now + 1000
		if now%7 == 0 {
			due -= now % 50
		}
		h.add(&transport.Event{Token: transport.Token(due)}, due)
		now++
	}
	for range kept {
		add()
	}
	last := transport.Token(0)
	inOrder := true
	turn := func() {
		var e transport.Event
		h.take(&e)
		inOrder = inOrder && e.Token >= last
		last = e.Token
		h.release()
		add()
	}
	require.Zero(t, testing.AllocsPerRun(20*kept, turn))
	require.True(t, inOrder)
	require.Len(t, h.free, kept)
}

func TestHeldKeepsNilPayloads(t *testing.T) {
	h := newTestHeld(t)
	h.add(&transport.Event{}, 1)
	h.add(&transport.Event{Payload: []byte{}}, 2)
	var e transport.Event
	h.take(&e)
	require.Nil(t, e.Payload)
	h.take(&e)
	require.NotNil(t, e.Payload)
}

func TestHeldMoves(t *testing.T) {
	h := newTestHeld(t)
	first, _ := h.add(&transport.Event{Token: 1}, 10)
	h.add(&transport.Event{Token: 2}, 5)
	h.add(&transport.Event{Token: 3}, 7)
	h.move(first, 5) // behind the one that is due at the same time
	h.move(99, 1)
	var tokens []transport.Token
	for !h.empty() {
		var e transport.Event
		h.take(&e)
		tokens = append(tokens, e.Token)
	}
	require.Equal(t, []transport.Token{2, 1, 3}, tokens)
}

// TestExponential compares drawn delays with the exponential distribution (Kolmogorov and Smirnov):
// the critical distance at a level of 0.001 is 1.95 over the root of the number of draws. The seed
// is fixed, so the test does not fail by chance.
func TestExponential(t *testing.T) {
	const draws, mean = 100_000, 1e6
	d, random := delay{mean: mean, random: true}, rand.New(rand.NewPCG(7, 0))
	var delays []float64
	sum := 0.0
	for range draws {
		x := float64(d.draw(random))
		delays = append(delays, x)
		sum += x
	}
	slices.Sort(delays)
	distance := 0.0
	for i, x := range delays {
		share := 1 - math.Exp(-x/mean)
		distance = max(distance, share-float64(i)/draws, float64(i+1)/draws-share)
	}
	require.Less(t, distance, 1.95/math.Sqrt(draws))
	require.InEpsilon(t, mean, sum/draws, 0.01)
	require.InEpsilon(t, mean*math.Log(100), delays[draws*99/100], 0.02, "p99")
}

func TestBimodal(t *testing.T) {
	const draws = 100_000
	d, random := delay{mean: 2, slow: 50, slowEvery: 20}, rand.New(rand.NewPCG(7, 0))
	counts := map[int64]int{}
	for range draws {
		counts[d.draw(random)]++
	}
	require.Len(t, counts, 2)
	require.InEpsilon(t, draws/20, counts[50], 0.05)
}

// TestPace checks the rate by a clock that the test sets.
func TestPace(t *testing.T) {
	for _, rate := range []int{1000, 3_000_000, 7_777_777} {
		const start, length = 5e9, 1e9
		p, taken := newPace(rate, start), 0
		for now := int64(start); now < start+length; now += 37 { // a loop that polls
			if p.left(now) == 0 {
				p.take(now)
				taken++
			}
		}
		require.InDelta(t, rate, taken, float64(rate)*1e-5+2, "calls in a second")
	}
}

// TestPaceCredit checks that a late caller gets the calls of the last millisecond at once, or one,
// and no more.
func TestPaceCredit(t *testing.T) {
	fast := newPace(10_000, 0)
	const after = 50e6
	burst := 0
	for fast.left(after) == 0 {
		fast.take(after)
		burst++
	}
	require.Equal(t, 11, burst, "the credit and the call that is due")

	p := newPace(1000, 0)
	p.take(0)
	require.EqualValues(t, 1, p.left(999_999))
	require.Zero(t, p.left(1e6))
	const late = 10_300_000
	p.take(late)
	require.Zero(t, p.left(late), "the credit")
	p.take(late)
	require.EqualValues(t, 1e6, p.left(late))

	p.take(late + 1_300_000) // less than an interval late: the schedule stays
	require.EqualValues(t, 700_000, p.left(late+1_300_000))
}

func TestStallTimes(t *testing.T) {
	s := stall{length: 74e6, every: 1e9}
	for now, left := range map[int64]int64{
		0: 74e6, 1: 74e6 - 1, 74e6 - 1: 1, 74e6: 0, 999_999_999: 0, 1e9: 74e6, 1234e9 + 70e6: 4e6,
		1234e9 + 75e6: 0,
	} {
		require.Equal(t, left, s.left(now), "at %d", now)
	}
}

// TestSinceBoot checks that stalls of all processes are at the same times: two readings agree.
func TestSinceBoot(t *testing.T) {
	first, err := sinceBoot()
	require.NoError(t, err)
	second, err := sinceBoot()
	require.NoError(t, err)
	require.InDelta(t, first, second, 1e8)
	require.Greater(t, first+clock.Now(), clock.Now())
}

// scripted is a sound worker that returns what a test puts into it.
type scripted struct {
	soundWorker
	arrived []transport.Event
	posted  []transport.Op
	waited  []time.Duration
	closed  bool
}

func (s *scripted) Poll(events []transport.Event) (int, error) {
	n := copy(events, s.arrived)
	s.arrived = s.arrived[n:]
	return n, nil
}

func (s *scripted) Post(ops []transport.Op) (int, error) {
	if s.closed {
		return 0, transport.ErrClosed
	}
	s.posted = append(s.posted, ops...)
	return len(ops), nil
}

func (s *scripted) Wait(timeout time.Duration) error {
	s.waited = append(s.waited, timeout)
	return nil
}

func (s *scripted) Close() error {
	s.closed = true
	return nil
}

func (s *scripted) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(dst, transport.Stat{Name: transport.StatCopies, Value: 10},
		transport.Stat{Name: transport.StatCopiedBytes, Value: 100})
}

func newScripted(t *testing.T, options map[string]string) (*worker, *scripted) {
	in, err := resolved(t, options)
	require.NoError(t, err)
	s := &scripted{}
	w, err := newWorker(s, in, 1, 64, 100)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.held.close()) })
	return w, s
}

// arrive lets events of one kind arrive, numbered by token from first on.
func (s *scripted) arrive(kind transport.EventKind, first, n int) {
	for i := range n {
		s.arrived = append(s.arrived, transport.Event{Kind: kind, Token: transport.Token(first + i),
			Payload: []byte{1, 2, 3, 4}, Size: 4})
	}
}

// pollAll polls until nothing is held or left, and returns the tokens and all payloads.
func pollAll(t *testing.T, w *worker, s *scripted) (tokens []int, payloads [][]byte) {
	events := make([]transport.Event, 8)
	for len(s.arrived) > 0 || !w.held.empty() {
		n, err := w.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			tokens = append(tokens, int(e.Token))
			payloads = append(payloads, slices.Clone(e.Payload))
		}
	}
	return tokens, payloads
}

func TestEveryThirdIsDamaged(t *testing.T) {
	for _, c := range []struct {
		option string
		kind   transport.EventKind
		want   []int
	}{
		{"lose-every", transport.EventResponse, []int{1, 2, 4, 5, 7}},
		{"lose-every", transport.EventRequest, []int{1, 2, 3, 4, 5, 6, 7}},
		{"duplicate-every", transport.EventResponse, []int{1, 2, 3, 3, 4, 5, 6, 6, 7}},
		{"reorder-every", transport.EventResponse, []int{1, 2, 4, 3, 5, 7, 6}},
		{"reorder-every", transport.EventRequest, []int{1, 2, 4, 3, 5, 7, 6}},
		{"corrupt-every", transport.EventResponse, []int{1, 2, 3, 4, 5, 6, 7}},
	} {
		for _, delay := range []string{"0s", "20us"} {
			w, s := newScripted(t, map[string]string{c.option: "3", "delay": delay})
			var tokens []int
			var payloads [][]byte
			// one by one, so that none overtakes because it is not held
			for token := 1; token <= 7; token++ {
				s.arrive(c.kind, token, 1)
				events := make([]transport.Event, 8)
				for {
					n, err := w.Poll(events)
					require.NoError(t, err)
					for _, e := range events[:n] {
						tokens = append(tokens, int(e.Token))
						payloads = append(payloads, slices.Clone(e.Payload))
					}
					if w.held.empty() || w.late[0].number != 0 || w.late[1].number != 0 {
						break
					}
				}
			}
			last, rest := pollAll(t, w, s)
			tokens, payloads = append(tokens, last...), append(payloads, rest...)
			if delay == "0s" || c.option != "reorder-every" {
				require.Equal(t, c.want, tokens, "%s of kind %d", c.option, c.kind)
			} else {
				require.Len(t, tokens, 7)
			}
			changed := 0
			for _, p := range payloads {
				if !slices.Equal(p, []byte{1, 2, 3, 4}) {
					changed++
				}
			}
			require.Equal(t, map[bool]int{true: 2}[c.option == "corrupt-every"], changed,
				"changed payloads")
		}
	}
}

func TestReorderedEventComesAlone(t *testing.T) {
	w, s := newScripted(t, map[string]string{"reorder-every": "1"})
	s.arrive(transport.EventResponse, 1, 1)
	tokens, _ := pollAll(t, w, s) // ends by patience
	require.Equal(t, []int{1}, tokens)
}

// TestDelayIsKept checks that no response is returned before its time, and that the loss of its
// peer comes after it.
func TestDelayIsKept(t *testing.T) {
	w, s := newScripted(t, map[string]string{"delay": "2ms"})
	s.arrive(transport.EventResponse, 1, 3)
	s.arrived = append(s.arrived, transport.Event{Kind: transport.EventPeerLost, Token: 9})
	began := clock.Now()
	tokens, _ := pollAll(t, w, s)
	require.GreaterOrEqual(t, clock.Now()-began, int64(2e6)-maxGap)
	require.Equal(t, []int{1, 2, 3, 9}, tokens)
}

// TestRequestPassesAHeldResponse checks that with room for one event, a request does not wait for a
// delay, and a response that is due not for requests.
func TestRequestPassesAHeldResponse(t *testing.T) {
	w, s := newScripted(t, map[string]string{"delay": "1m"})
	one := make([]transport.Event, 1)
	s.arrive(transport.EventResponse, 1, 1)
	n, err := w.Poll(one)
	require.NoError(t, err)
	require.Zero(t, n)
	s.arrive(transport.EventRequest, 2, 2)
	n, err = w.Poll(one)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 2, one[0].Token)

	w.held.queue[w.held.head].due = clock.Now()
	n, err = w.Poll(one)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, one[0].Token)
}

func TestStallHoldsEverything(t *testing.T) {
	w, s := newScripted(t, map[string]string{"stall": "10s", "stall-every": "20s"})
	w.boot = -clock.Now() // a stall begins now
	s.arrive(transport.EventResponse, 1, 1)
	n, err := w.Poll(make([]transport.Event, 1))
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = w.Post(make([]transport.Op, 1))
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, w.Wait(time.Hour))
	require.InDelta(t, 10*time.Second, s.waited[0], float64(5*time.Second),
		"Wait ends with the stall")

	w.boot += 10e9 // it is over
	n, err = w.Poll(make([]transport.Event, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = w.Post(make([]transport.Op, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestRateRefuses(t *testing.T) {
	w, s := newScripted(t, map[string]string{"rate": "1"})
	calls := []transport.Op{{Kind: transport.OpCall}, {Kind: transport.OpCall},
		{Kind: transport.OpCall}}
	n, err := w.Post(calls)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the first is due at once")
	n, err = w.Post([]transport.Op{{Kind: transport.OpReply}, {Kind: transport.OpCall}})
	require.NoError(t, err)
	require.Equal(t, 1, n, "replies have no limit")
	require.Len(t, s.posted, 2)
	require.NoError(t, w.Wait(time.Hour))
	require.LessOrEqual(t, s.waited[0], time.Second, "Wait ends when a call is due")
}

func TestWaitEndsWithADelay(t *testing.T) {
	w, s := newScripted(t, map[string]string{"delay": "1m"})
	require.NoError(t, w.Wait(time.Hour))
	require.Equal(t, time.Hour, s.waited[0], "nothing is held")
	s.arrive(transport.EventResponse, 1, 1)
	_, err := w.Poll(make([]transport.Event, 4))
	require.NoError(t, err)
	require.NoError(t, w.Wait(time.Hour))
	require.LessOrEqual(t, s.waited[1], time.Minute)
}

func TestTimesAreSpent(t *testing.T) {
	w, s := newScripted(t, map[string]string{"client-time": "1ms", "daemon-time": "2ms"})
	began := clock.Now()
	n, err := w.Post([]transport.Op{{Kind: transport.OpCall}, {Kind: transport.OpReply},
		{Kind: transport.OpCall}})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.GreaterOrEqual(t, clock.Now()-began, int64(1.99e6))

	s.arrive(transport.EventRequest, 1, 3)
	began = clock.Now()
	events := make([]transport.Event, 8)
	for range 3 {
		n, err := w.Poll(events)
		require.NoError(t, err)
		require.Equal(t, 1, n, "one request after another")
	}
	require.GreaterOrEqual(t, clock.Now()-began, int64(5.99e6))
}

func TestStatsCount(t *testing.T) {
	w, s := newScripted(t, map[string]string{"delay": "1us", "lose-every": "2"})
	s.arrive(transport.EventResponse, 1, 4)
	pollAll(t, w, s)
	stats := map[string]uint64{}
	for _, stat := range w.ReadStats(nil) {
		stats[stat.Name] = stat.Value
	}
	require.EqualValues(t, 12, stats[transport.StatCopies])
	require.EqualValues(t, 108, stats[transport.StatCopiedBytes])
	require.EqualValues(t, 2, stats["injected_delays"])
	require.EqualValues(t, 2, stats["injected_losses"])
}

func TestClosedWorkerRefuses(t *testing.T) {
	w, s := newScripted(t, map[string]string{"delay": "1m", "stall": "1s", "stall-every": "2s",
		"rate": "1"})
	w.boot = -clock.Now() // a stall
	require.NoError(t, w.Close())
	require.True(t, s.closed)
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrClosed)
}

// TestMemoryIsReturned opens and closes a transport whose workers reserve much address space.
func TestMemoryIsReturned(t *testing.T) {
	mapped := func() (pages int) {
		text, err := os.ReadFile("/proc/self/statm")
		require.NoError(t, err)
		_, err = fmt.Sscan(string(text), &pages)
		require.NoError(t, err)
		return pages
	}
	options, err := transport.ParseOptions(schema, map[string]string{"delay": "1us"})
	require.NoError(t, err)
	cycle := func() {
		r, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 4, InFlight: 64,
			MaxPayload: 1 << 20, Options: options})
		require.NoError(t, err)
		_, err = r.NewWorker(0)
		require.NoError(t, err)
		reserved := len(r.(*endpoint).workers[0].held.memory)
		require.GreaterOrEqual(t, reserved, 2*4*64<<20, "room for all calls in flight, twice")
		require.LessOrEqual(t, reserved, maxHeldBytes)
		require.NoError(t, r.Close())
	}
	cycle()
	before := mapped()
	for range 8 {
		cycle()
	}
	require.Less(t, (mapped()-before)*os.Getpagesize(), 1<<30)
}

// TestSeeds checks that two runs inject the same, and that two workers do not.
func TestSeeds(t *testing.T) {
	draw := func(seed uint64) (list []int64) {
		w, err := newWorker(&scripted{}, injection{delay: delay{mean: 1e6, random: true}},
			seed, 64, 1)
		require.NoError(t, err)
		defer w.held.close()
		for range 100 {
			list = append(list, w.injection.delay.draw(w.random))
		}
		return list
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
}
