package erpc

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// member is a worker with a verified load, in a simulated network or a real one.
type member struct {
	t      testing.TB
	w      *worker
	random *rand.Rand
	events []transport.Event
	calls  int // to make, to each peer
	sizes  func(*rand.Rand) int
	defers bool // replies are delayed at random and sent in any order

	made     []int            // by peer
	waiting  []map[uint64]int // by peer: size of the response, by token
	executed [][]uint64       // by peer; bit i is request i
	served   int
	replies  []transport.Op
	answered int
	bytes    int // of responses
}

func (n *network) member(t testing.TB, s *settings, mtu, calls int,
	sizes func(*rand.Rand) int) *member {
	w, err := newWorker(s, n.port(mtu), nil, s.credits, func() int64 { return n.now })
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.Close())
		require.NoError(t, w.release())
	})
	return newMember(t, w, n.random.Uint64(), calls, sizes)
}

func newMember(t testing.TB, w *worker, seed uint64, calls int,
	sizes func(*rand.Rand) int) *member {
	return &member{t: t, w: w, random: rand.New(rand.NewPCG(seed, 2)),
		events: make([]transport.Event, 16), calls: calls, sizes: sizes}
}

func join(t testing.TB, a, b *member) {
	require.NoError(t, a.w.Connect(t.Context(), transport.PeerID(len(a.made)), b.w.Address()))
	require.NoError(t, b.w.Connect(t.Context(), transport.PeerID(len(b.made)), a.w.Address()))
	a.joined()
	b.joined()
}

// joined adds the records of one more peer.
func (m *member) joined() {
	m.made = append(m.made, 0)
	m.waiting = append(m.waiting, map[uint64]int{})
	m.executed = append(m.executed, nil)
}

// A message has its number, the size of the response (0 in a response), and bytes that follow from
// the number.
const messageHead = 16

func message(number uint64, size, response int) []byte {
	b := make([]byte, max(size, messageHead))
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[8:], uint64(response))
	copy(b[messageHead:], pattern()[number%251:])
	return b
}

// pattern is long enough for the rest of every message from any offset below 251.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, maxMessage+251)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
})

func (m *member) verify(b []byte, number uint64, size, response int) {
	if len(b) != max(size, messageHead) || binary.LittleEndian.Uint64(b) != number ||
		binary.LittleEndian.Uint64(b[8:]) != uint64(response) ||
		!bytes.Equal(pattern()[number%251:][:len(b)-messageHead], b[messageHead:]) {
		require.Fail(m.t, "wrong bytes",
			"message %d of %d bytes arrived with %d bytes or other content", number, size, len(b))
	}
}

// iterate is one iteration of a runtime's loop.
func (m *member) iterate() {
	for peer := range m.made {
		for m.made[peer] < m.calls {
			number := uint64(m.made[peer] + 1)
			size, response := m.sizes(m.random), m.sizes(m.random)
			n, err := m.w.Post([]transport.Op{{Kind: transport.OpCall, Peer: transport.PeerID(peer),
				Token:   transport.Token(number),
				Payload: message(number, size, response)}})
			require.NoError(m.t, err)
			if n == 0 {
				break
			}
			m.waiting[peer][number] = response
			m.made[peer]++
		}
	}
	require.NoError(m.t, m.w.Flush())
	n, err := m.w.Poll(m.events)
	require.NoError(m.t, err)
	for i := range m.events[:n] {
		m.take(&m.events[i])
	}
	m.reply()
	require.NoError(m.t, m.w.Flush())
}

func (m *member) take(e *transport.Event) {
	number := binary.LittleEndian.Uint64(e.Payload)
	switch e.Kind {
	case transport.EventRequest:
		response := int(binary.LittleEndian.Uint64(e.Payload[8:]))
		m.verify(e.Payload, number, len(e.Payload), response)
		m.execute(e.Peer, number)
		m.replies = append(m.replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
			Token: e.Token, Payload: message(number, response, 0)})
	case transport.EventResponse:
		response, awaited := m.waiting[e.Peer][uint64(e.Token)]
		require.True(m.t, awaited, "call %d to peer %d was answered twice", e.Token, e.Peer)
		delete(m.waiting[e.Peer], uint64(e.Token))
		m.verify(e.Payload, uint64(e.Token), response, 0)
		m.answered++
		m.bytes += len(e.Payload)
	default:
		require.Fail(m.t, "unexpected event", "%+v", e)
	}
}

// execute records that a request was executed, which must happen only once.
func (m *member) execute(peer transport.PeerID, number uint64) {
	for uint64(len(m.executed[peer])) <= number/64 {
		m.executed[peer] = append(m.executed[peer], 0)
	}
	word, bit := &m.executed[peer][number/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		require.Fail(m.t, "executed twice", "request %d of peer %d", number, peer)
	}
	*word |= bit
	m.served++
}

func (m *member) reply() {
	if m.defers {
		m.random.Shuffle(len(m.replies), func(i, j int) {
			m.replies[i], m.replies[j] = m.replies[j],
				m.replies[i]
		})
	}
	for len(m.replies) > 0 && (!m.defers || m.random.IntN(4) > 0) {
		last := len(m.replies) - 1
		n, err := m.w.Post(m.replies[last:])
		require.NoError(m.t, err)
		require.Equal(m.t, 1, n, "Post must take every reply")
		m.replies = m.replies[:last]
	}
}

func (m *member) done() bool {
	for peer := range m.made {
		if m.made[peer] < m.calls || len(m.waiting[peer]) > 0 {
			return false
		}
	}
	return true
}

func every(members []*member, is func(*member) bool) bool {
	return !slices.ContainsFunc(members, func(m *member) bool { return !is(m) })
}

// rest polls members that are done for a while, so that late packets arrive, and then until their
// wheels are empty: packets that are no longer needed stay there until they are due.
func rest(t testing.TB, while time.Duration, members ...*member) {
	empty := func(m *member) bool { return m.w.wheel.count == 0 }
	for begin := time.Now(); time.Since(begin) < while || !every(members, empty); {
		require.Less(t, time.Since(begin), 30*time.Second, "packets do not leave the wheel")
		for _, m := range members {
			m.iterate()
		}
	}
}

// requireAtRest checks that nothing leaked: all credits, slots and calls are free.
func (m *member) requireAtRest() {
	w := m.w
	require.Nil(m.t, w.awaiting, "slots that await answers")
	require.Empty(m.t, m.replies)
	for _, p := range w.sessions {
		require.Equal(m.t, established, p.state)
		require.Equal(m.t, p.maxCredits, p.credits, "credits")
		require.Len(m.t, p.freeSlots, len(p.slots), "free slots")
		require.Len(m.t, p.freeCalls, len(p.calls), "free calls")
		require.True(m.t, p.backlog.Empty())
		for i := range p.slots {
			require.Zero(m.t, p.slots[i].inWheel, "packets of a slot in the wheel")
		}
	}
	require.Zero(m.t, w.wheel.count, "packets in the wheel")
}
