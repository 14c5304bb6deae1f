package erpc

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

// network is a simulated network in virtual time. Its seed determines everything that happens.
type network struct {
	now    int64
	random *rand.Rand
	ports  []*simulated
	faults faulty.Faults
	delay  int64 // of every packet
	tick   int64 // between two iterations of members that have something to do

	flying   flights
	carried  uint64
	recorded *[]flight // what was sent, if not nil
}

// simulated is a port of a network.
type simulated struct {
	network *network
	number  int
	mtu     int
	batch   []flight
	arrived [][]byte
	from    []int
	lent    [][]byte
	placed  int // bodies in targets

	// The path to the port has a rate and a queue.
	rate    float64 // bytes per second; 0 is unlimited
	room    int     // bytes of the queue
	free    int64   // when the queue will be empty
	dropped uint64  // because the queue was full
	maximum int64   // longest wait in the queue
	closed  bool
}

var _ datagram.Port = (*simulated)(nil)

// flight is a packet in flight.
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

func newNetwork(seed uint64, faults faulty.Faults) *network {
	return &network{random: rand.New(rand.NewPCG(seed, 1)), faults: faults, delay: 5000, tick: 1000}
}

func (n *network) port(mtu int) *simulated {
	p := &simulated{network: n, number: len(n.ports), mtu: mtu}
	n.ports = append(n.ports, p)
	return p
}

// carry sends a packet.
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
			to.maximum = max(to.maximum, waits)
			to.free = max(to.free, n.now) + int64(float64(len(f.data)+28)*1e9/to.rate)
			f.at = to.free + n.delay
		}
		n.carried++
		f.order = n.carried
		heap.Push(&n.flying, f)
	}
}

// pass advances the time by d.
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
func (p *simulated) Work() control.Work                              { return control.Work{} }
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
	p.batch = append(p.batch, flight{from: p.number, to: int(to),
		data: append(slices.Clone(head), body...)})
	return true
}

func (p *simulated) Flush() error {
	for _, f := range p.batch {
		if r := p.network.recorded; r != nil {
			*r = append(*r, f)
		}
		p.network.carry(f)
	}
	p.batch = p.batch[:0]
	return nil
}

// Receive places bodies in the target as freely as [datagram.Target] allows, and spoils the rest of
// it.
func (p *simulated) Receive(packets []datagram.Packet, target datagram.Target) (int, error) {
	for _, old := range p.lent {
		clear(old) // the worker must not use it any more
	}
	p.lent = p.lent[:0]
	n, part, size := min(len(packets), len(p.arrived)), 0, p.mtu-target.Head
	for i := range min(len(target.Memory), (n+1)*size) {
		target.Memory[i] = 0xee
	}
	for i := range n {
		// Copy, because duplicates must not share bytes.
		data := slices.Clone(p.arrived[i])
		p.lent = append(p.lent, data)
		packets[i] = datagram.Packet{Data: data, Source: datagram.Source{Port: uint64(p.from[i])}}
		part = max(part, i) + p.network.random.IntN(2)
		if len(data) == p.mtu && (part+1)*size <= len(target.Memory) &&
			p.network.random.IntN(4) > 0 {
			packets[i].Data = data[:target.Head]
			packets[i].Body = target.Memory[part*size:][:size]
			copy(packets[i].Body, data[target.Head:])
			p.placed++
			part++
		}
	}
	p.arrived, p.from = p.arrived[n:], p.from[n:]
	return n, nil
}

func (p *simulated) Close() error {
	p.closed = true
	return nil
}

// settingsOf resolves options, with the provider udp.
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

// step advances the time until there is something to do, by at least a tick.
func (n *network) step(members []*member) {
	next := n.now + 50*n.tick
	if len(n.flying) > 0 {
		next = n.flying[0].at
	}
	for _, m := range members {
		p := m.w.port.(*simulated)
		if m.w.wheel.count > 0 || len(m.replies) > 0 || len(p.arrived) > 0 ||
			m.w.nextPacket < m.w.packetCount {
			next = n.now
		}
		next = min(next, m.w.scanAt)
	}
	n.pass(max(next-n.now, n.tick))
}

// run iterates the members until all are done, and then until late packets have arrived. It returns
// the virtual time until they were done.
func (n *network) run(t testing.TB, limit int64, members ...*member) int64 {
	begin := n.now
	iterate := func() {
		for _, m := range members {
			m.iterate()
		}
		n.step(members)
	}
	for slices.ContainsFunc(members, func(m *member) bool { return !m.done() }) {
		require.Less(t, n.now-begin, limit, "virtual time has passed the limit")
		iterate()
	}
	took := n.now - begin
	for end := n.now + int64(50*time.Millisecond); n.now < end; {
		iterate()
	}
	return took
}
