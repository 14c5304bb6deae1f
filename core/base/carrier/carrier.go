package carrier

import (
	"maps"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Watch counts bytes from NewWatch on.
type Watch struct{ before snapshot }

type snapshot struct {
	sockets    sockets
	interfaces map[string]record.Bytes
	ports      map[string]record.Bytes
}

func read() snapshot {
	return snapshot{sockets: readSockets(), interfaces: readInterfaces(), ports: readPorts(devices)}
}

// NewWatch reads the counters.
func NewWatch() *Watch { return &Watch{read()} }

// Carried returns what the counters have grown by since NewWatch. Connections that were opened
// since are included, and those that were closed are not.
func (w *Watch) Carried() *record.Carried {
	now := read()
	t := &record.Carried{Namespace: namespace(), Counters: []record.Counter{}}
	tcp := map[string]record.Bytes{}
	for cookie, c := range now.sockets.tcp {
		sum := tcp[c.ends.String()]
		sum.Add(c.bytes().Since(w.before.sockets.tcp[cookie].bytes()))
		tcp[c.ends.String()] = sum
	}
	var udp record.Bytes
	for cookie, drops := range now.sockets.dropped {
		udp.Add(record.Bytes{Dropped: drops}.Since(
			record.Bytes{Dropped: w.before.sockets.dropped[cookie]}))
	}
	put(t, record.KindTCP, tcp, nil)
	put(t, record.KindUDP, map[string]record.Bytes{"all sockets": udp}, nil)
	put(t, record.KindInterface, now.interfaces, w.before.interfaces)
	put(t, record.KindPort, now.ports, w.before.ports)
	return t
}

func (c connection) bytes() record.Bytes {
	return record.Bytes{Sent: c.sent, Received: c.received, SentPackets: c.sentPackets,
		ReceivedPackets: c.receivedPackets,
		Retransmitted:   c.retransmitted}
}

func put(t *record.Carried, kind string, now, before map[string]record.Bytes) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if grown := now[name].Since(before[name]); grown != (record.Bytes{}) {
			t.Counters = append(t.Counters, record.Counter{Kind: kind, Name: name, Bytes: grown})
		}
	}
}

// Describe completes the paths that a transport's workers state with what the kernel knows of them,
// and returns each once.
func Describe(stated []transport.Path) []transport.Path {
	var list []transport.Path
	var open *sockets
	for _, p := range stated {
		if p.Carrier != transport.MediumTCP || p.Remote != "" {
			p.Facts = maps.Clone(p.Facts)
			list = append(list, p)
			continue
		}
		if open == nil {
			s := readSockets()
			open = &s
		}
		list = append(list, open.paths(p)...)
	}
	list = once(list)
	for i := range list {
		p := &list[i]
		switch {
		case p.Carrier == transport.MediumMemory:
			addFact(p, record.FactSegments, segments())
		case p.Device != "":
			addPort(p, devices)
		case p.Remote != "" || p.Interface != "":
			addRoute(p)
		}
		// of no use any more: workers whose routes are the same state the same
		p.LocalPort, p.RemotePort = 0, 0
	}
	return once(list)
}

// once returns list without repetitions.
func once(list []transport.Path) (unique []transport.Path) {
	for _, p := range list {
		if !slices.ContainsFunc(unique, func(q transport.Path) bool { return same(&p, &q) }) {
			unique = append(unique, p)
		}
	}
	return unique
}

func same(p, q *transport.Path) bool {
	return p.Carrier == q.Carrier && p.Local == q.Local && p.Remote == q.Remote &&
		p.LocalPort == q.LocalPort &&
		p.RemotePort == q.RemotePort && p.Interface == q.Interface && p.Device == q.Device &&
		p.Port == q.Port && p.Overhead == q.Overhead && maps.Equal(p.Facts, q.Facts)
}

// addFact adds a fact that the transport did not state itself.
func addFact(p *transport.Path, name, value string) {
	if _, stated := p.Facts[name]; stated || value == "" {
		return
	}
	if p.Facts == nil {
		p.Facts = map[string]string{}
	}
	p.Facts[name] = value
}
