package erpc

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/datagram"
	"transportbench/core/transport"
)

// network is one in virtual time: all that happens in it follows from its seed.
type network struct {
	now    int64
	random *rand.Rand
	ports  []*simulated
	faults datagram.Faults
	delay  int64 // of every packet
	tick   int64 // between two turns of members that have something to do

	flying  flights
	carried uint64
}

// simulated is a port in it.
type simulated struct {
	network *network
	number  int
	mtu     int
	batch   []flight
	arrived [][]byte
	from    []int
	lent    [][]byte

	// The way to the port has a rate, and a queue before it.
	rate    float64 // bytes per second; 0 is without bound
	room    int     // bytes of the queue
	free    int64   // when the queue will be empty
	dropped uint64  // for want of room
	most    int64   // longest wait in the queue
	closed  bool
}

var _ datagram.Port = (*simulated)(nil)

// flight is a packet on its way.
type flight struct {
	at       int64
	order    uint64
	from, to int
	data     []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

func newNetwork(seed uint64, faults datagram.Faults) *network {
	return &network{random: rand.New(rand.NewPCG(seed, 1)), faults: faults, delay: 5000, tick: 1000}
}

func (n *network) port(mtu int) *simulated {
	p := &simulated{network: n, number: len(n.ports), mtu: mtu}
	n.ports = append(n.ports, p)
	return p
}

// carry takes a packet on its way.
func (n *network) carry(f flight) {
	if n.random.Float64() < n.faults.Drop {
		return
	}
	if n.random.Float64() < n.faults.Corrupt && len(f.data) > 0 {
		f.data = slices.Clone(f.data)
		f.data[n.random.IntN(len(f.data))] ^= 1 << n.random.IntN(8)
	}
	copies := 1
	if n.random.Float64() < n.faults.Duplicate {
		copies = 2
	}
	to := n.ports[f.to]
	for range copies {
		f.at = n.now + n.delay
		if n.random.Float64() < n.faults.Delay {
			f.at += int64(n.faults.DelayBy)
		}
		if n.random.Float64() < n.faults.Reorder {
			f.at += n.random.Int64N(4 * n.delay)
		}
		if to.rate > 0 {
			waits := max(to.free-n.now, 0)
			if float64(waits)*to.rate/1e9 > float64(to.room) {
				to.dropped++
				continue
			}
			to.most = max(to.most, waits)
			to.free = max(to.free, n.now) + int64(float64(len(f.data)+28)*1e9/to.rate)
			f.at = to.free + n.delay
		}
		n.carried++
		f.order = n.carried
		heap.Push(&n.flying, f)
	}
}

// pass lets time pass.
func (n *network) pass(d int64) {
	n.now += d
	for len(n.flying) > 0 && n.flying[0].at <= n.now {
		f := heap.Pop(&n.flying).(flight)
		p := n.ports[f.to]
		p.arrived = append(p.arrived, f.data)
		p.from = append(p.from, f.from)
	}
}

func (p *simulated) Address() []byte         { return []byte(strconv.Itoa(p.number)) }
func (p *simulated) MTU() int                { return p.mtu }
func (p *simulated) Release(datagram.Remote) {}
func (p *simulated) Source(r datagram.Remote) datagram.Source {
	return datagram.Source{Port: uint64(r)}
}
func (p *simulated) ReadStats(dst []transport.Stat) []transport.Stat { return dst }
func (p *simulated) Notes() map[string]string                        { return nil }
func (p *simulated) Open(address []byte) (r datagram.Remote, err error) {
	number, err := strconv.Atoi(string(address))
	if err != nil || number >= len(p.network.ports) {
		return 0, errors.New("no such port")
	}
	return datagram.Remote(number), nil
}

func (p *simulated) Send(to datagram.Remote, head, body []byte) bool {
	if len(p.batch) == 64 {
		return false
	}
	p.batch = append(p.batch, flight{from: p.number, to: int(to), data: append(slices.Clone(head), body...)})
	return true
}

func (p *simulated) Flush() error {
	for _, f := range p.batch {
		p.network.carry(f)
	}
	p.batch = p.batch[:0]
	return nil
}

func (p *simulated) Receive(packets []datagram.Packet) (int, error) {
	for _, old := range p.lent {
		clear(old) // what was lent is not to be looked at any more
	}
	p.lent = p.lent[:0]
	n := min(len(packets), len(p.arrived))
	for i := range n {
		// A copy: a duplicate is not to share its bytes.
		data := slices.Clone(p.arrived[i])
		p.lent = append(p.lent, data)
		packets[i] = datagram.Packet{Data: data, Source: datagram.Source{Port: uint64(p.from[i])}}
	}
	p.arrived, p.from = p.arrived[n:], p.from[n:]
	return n, nil
}

func (p *simulated) Close() error {
	p.closed = true
	return nil
}

// settingsOf resolves options for a simulated network.
func settingsOf(t testing.TB, cfg transport.Config, raw map[string]string) *settings {
	all := map[string]string{"provider": "udp"}
	for name, value := range raw {
		all[name] = value
	}
	var err error
	cfg.Options, err = transport.ParseOptions(schema, all)
	require.NoError(t, err)
	s, err := resolve(cfg)
	require.NoError(t, err)
	return &s
}

// member is a worker in a simulated network, with a load.
type member struct {
	t      testing.TB
	w      *worker
	random *rand.Rand
	events []transport.Event
	calls  int // to be made, to each peer
	sizes  func(*rand.Rand) int
	defers bool // replies are kept for a while, and go in any order

	made     []int            // by peer
	waiting  []map[uint64]int // by peer: size of the response, by token
	executed [][]uint64       // by peer: bit i: request i
	served   int
	replies  []transport.Op
	answered int
	bytes    int // of responses
}

func (n *network) member(t testing.TB, s *settings, mtu, calls int, sizes func(*rand.Rand) int) *member {
	w, err := newWorker(s, n.port(mtu), nil, s.credits, func() int64 { return n.now })
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.Close())
		require.NoError(t, w.release())
	})
	return newMember(t, w, n.random.Uint64(), calls, sizes)
}

func newMember(t testing.TB, w *worker, seed uint64, calls int, sizes func(*rand.Rand) int) *member {
	return &member{t: t, w: w, random: rand.New(rand.NewPCG(seed, 2)), events: make([]transport.Event, 16), calls: calls, sizes: sizes}
}

func join(t testing.TB, a, b *member) {
	require.NoError(t, a.w.Connect(t.Context(), transport.PeerID(len(a.made)), b.w.Address()))
	require.NoError(t, b.w.Connect(t.Context(), transport.PeerID(len(b.made)), a.w.Address()))
	a.joined()
	b.joined()
}

// joined makes room for one more peer.
func (m *member) joined() {
	m.made = append(m.made, 0)
	m.waiting = append(m.waiting, map[uint64]int{})
	m.executed = append(m.executed, nil)
}

// A message says who it is: its number, and bytes that follow from that and its place.
// A request says besides how long its response is to be.
const messageHead = 16

func message(number uint64, size, response int) []byte {
	b := make([]byte, max(size, messageHead))
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[8:], uint64(response))
	copy(b[messageHead:], pattern()[number%251:])
	return b
}

// pattern is long enough for the rest of every message, from several places on.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, maxMessage+251)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
})

func (m *member) verify(b []byte, number uint64, size, response int) {
	if len(b) != max(size, messageHead) || binary.LittleEndian.Uint64(b) != number || binary.LittleEndian.Uint64(b[8:]) != uint64(response) ||
		!bytes.Equal(pattern()[number%251:][:len(b)-messageHead], b[messageHead:]) {
		require.Fail(m.t, "wrong bytes", "message %d of %d bytes has %d, or others than were sent", number, size, len(b))
	}
}

// turn is what a runtime's loop does.
func (m *member) turn() {
	for peer := range m.made {
		for m.made[peer] < m.calls {
			number := uint64(m.made[peer] + 1)
			size, response := m.sizes(m.random), m.sizes(m.random)
			n, err := m.w.Post([]transport.Op{{Kind: transport.OpCall, Peer: transport.PeerID(peer), Token: transport.Token(number),
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
		m.replies = append(m.replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token, Payload: message(number, response, 0)})
	case transport.EventResponse:
		response, waits := m.waiting[e.Peer][uint64(e.Token)]
		require.True(m.t, waits, "call %d to peer %d is answered twice", e.Token, e.Peer)
		delete(m.waiting[e.Peer], uint64(e.Token))
		m.verify(e.Payload, uint64(e.Token), response, 0)
		m.answered++
		m.bytes += len(e.Payload)
	default:
		require.Fail(m.t, "an event that nothing is the cause of", "%+v", e)
	}
}

// execute notes that a request was run, which it may be once.
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
		m.random.Shuffle(len(m.replies), func(i, j int) { m.replies[i], m.replies[j] = m.replies[j], m.replies[i] })
	}
	for len(m.replies) > 0 && (!m.defers || m.random.IntN(4) > 0) {
		last := len(m.replies) - 1
		n, err := m.w.Post(m.replies[last:])
		require.NoError(m.t, err)
		require.Equal(m.t, 1, n, "a reply always finds room")
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

// requireAtRest checks that nothing leaked: all credits, slots and calls are there.
func (m *member) requireAtRest() {
	w := m.w
	require.Nil(m.t, w.first, "slots that wait for answers")
	require.Empty(m.t, m.replies)
	for _, p := range w.sessions {
		require.Equal(m.t, up, p.state)
		require.Equal(m.t, p.total, p.credits, "credits")
		require.Len(m.t, p.free, len(p.slots), "free slots")
		require.Len(m.t, p.spare, len(p.calls), "calls that are not in use")
		require.True(m.t, p.backlog.empty())
		for i := range p.slots {
			require.Zero(m.t, p.slots[i].held, "packets of a slot in the wheel")
		}
	}
	require.Zero(m.t, w.wheel.count, "packets in the wheel")
}

// step lets time pass until there is something to do, which is a tick at least.
func (n *network) step(members []*member) {
	next := n.now + 50*n.tick
	if len(n.flying) > 0 {
		next = n.flying[0].at
	}
	for _, m := range members {
		p := m.w.port.(*simulated)
		if m.w.wheel.count > 0 || len(m.replies) > 0 || len(p.arrived) > 0 || m.w.next < m.w.received {
			next = n.now
		}
		next = min(next, m.w.scanAt)
	}
	n.pass(max(next-n.now, n.tick))
}

// run has the members take turns until all is done, and then for as long as late packets
// need. It returns how long the first took in virtual time.
func (n *network) run(t testing.TB, limit int64, members ...*member) int64 {
	begin := n.now
	turn := func() {
		for _, m := range members {
			m.turn()
		}
		n.step(members)
	}
	for slices.ContainsFunc(members, func(m *member) bool { return !m.done() }) {
		require.Less(t, n.now-begin, limit, "virtual time that passed")
		turn()
	}
	took := n.now - begin
	for end := n.now + int64(50*time.Millisecond); n.now < end; {
		turn()
	}
	return took
}
