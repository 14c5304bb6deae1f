package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

const (
	// pathBound is the share of the payload by which a carrier's counters may fall below it, or
	// exceed it and the transport's stated overhead. The payload is known from the calls that were
	// completed in the window, and those that began before it or ended after it are of the same
	// sizes by their mean only.
	pathBound = 0.1
	// pathSlack is what connections may carry besides: probes of liveness, credits, window updates.
	// A window that carried less is not judged.
	pathSlack = 64 << 10
)

// maxRDMAPacket is the largest payload of a packet of RDMA.
const maxRDMAPacket = 4096

// checkPath compares, for each window, what the ranks posted to the transport with what the kernel
// counted on the paths that the transport states. Too few bytes there, or payload on a connection
// that the transport does not state, mean that bytes went elsewhere.
func checkPath(e Evidence) result.Finding {
	f := result.Finding{OK: true, Limit: pathBound}
	starts := e.starts()
	var names []string
	var posted, counted float64
	var uncounted, limit string
	judged, bad := 0, 0
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		if r.Launch >= len(starts) {
			continue
		}
		w := newPathWindow(starts[r.Launch].Setup.Ranks, e.Result.Machines(), r)
		for _, name := range w.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(w.names) == 0 || w.posted <= pathSlack {
			continue
		}
		v := w.judge()
		switch {
		case v.problem != "":
			if bad++; f.OK || v.deviation > f.Value {
				f = result.Finding{Value: v.deviation, Limit: f.Limit, Message: v.problem,
					Severity: v.severity}
			}
		case v.unknown != "":
			uncounted = v.unknown
		default:
			judged++
			posted, counted = posted+w.posted, counted+v.counted
			if w.packetsOnly {
				limit = "at most "
			}
			if f.OK {
				f.Value = max(f.Value, v.deviation)
			}
		}
	}
	path := strings.Join(names, ", ")
	switch {
	case !f.OK:
		f.Message = fmt.Sprintf("%s: in %s, %s", path, format.Count(bad, "window"), f.Message)
	case len(names) == 0:
		return notJudged(f, "%s does not state what carries its bytes", e.Result.Plugin.Name)
	case judged == 0:
		return notJudged(f, "%s: %s", path, cmp.Or(uncounted, "the windows carried too little"))
	default:
		f.Message = fmt.Sprintf("%s: %s%s were counted there for %s of payload, and no other TCP "+
			"connection of the ranks carried any",
			path, limit, format.Bytes(counted), format.Bytes(posted))
	}
	return f
}

// pathWindow is what the ranks posted in one window and what the kernel counted.
type pathWindow struct {
	names            []string // of the paths
	carriers         map[string]bool
	overhead         float64 // bytes of a message; 0 if a path does not state it
	posted, messages float64 // both directions, of all ranks

	tcp, elsewhere float64            // bytes of connections that are stated, and of others
	tcpPath        string             // the connection that is not stated and carried most
	maxElsewhere   float64            // bytes of tcpPath
	interfaces     map[place]bool     // that are stated
	ports          map[string]bool    // that are stated
	sent, packets  map[place]float64  // of interfaces
	port           map[string]float64 // bytes of ports
	portPackets    map[string]float64
	// own is the workers' own count of the bytes that the kernel copied. A thread counts from the
	// begin to the end of its own window, in which both ends together had the share measured of the
	// requests: a starved thread begins late, and the drain is after the end.
	own, measured float64
	sharedPort    bool   // several ranks state the same port
	uncounted     string // why the port's counters may stay at 0
	packetsOnly   bool   // a port counts packets and no bytes
}

// place is an interface of a network namespace. Namespaces of different machines may have
// the same number.
type place struct {
	machine   string
	namespace uint64
	name      string
}

func newPathWindow(setups []record.RankSetup, machines map[int]string,
	r *result.Repeat) *pathWindow {
	w := &pathWindow{carriers: map[string]bool{}, interfaces: map[place]bool{},
		ports: map[string]bool{},
		sent:  map[place]float64{}, packets: map[place]float64{}, port: map[string]float64{},
		portPackets: map[string]float64{}}
	w.count(r)
	if len(setups) != len(r.Ranks) {
		return w
	}
	var overheads []float64
	for i := range r.Ranks {
		carried := r.Ranks[i].Carried
		if carried == nil {
			w.names = nil
			return w
		}
		connections := map[string]bool{}
		for _, p := range setups[i].Paths {
			if name := record.PathName(&p); !slices.Contains(w.names, name) {
				w.names = append(w.names, name)
			}
			w.carriers[p.Carrier] = true
			connections[p.Local+" "+p.Remote] = p.Carrier == transport.MediumTCP
			switch {
			case p.Device != "":
				name := machines[i] + record.PortName(&p)
				w.sharedPort = w.sharedPort || w.ports[name] // each rank states it once
				w.ports[name] = true
				w.uncounted = cmp.Or(w.uncounted, p.Facts[record.FactUncounted])
			case p.Interface != "":
				w.interfaces[place{machines[i], carried.Namespace, p.Interface}] = true
			}
			overheads = append(overheads, float64(p.Overhead))
		}
		w.add(machines[i], carried, connections)
	}
	if len(overheads) > 0 && slices.Min(overheads) > 0 {
		w.overhead = slices.Max(overheads)
	}
	return w
}

// add adds what one rank's kernel counted. Ranks of one namespace read the same interfaces.
func (w *pathWindow) add(machine string, carried *record.Carried, connections map[string]bool) {
	for _, c := range carried.Counters {
		sent := float64(c.Sent)
		switch c.Kind {
		case record.KindTCP:
			if connections[c.Name] {
				w.tcp += sent
				continue
			}
			if sent > w.maxElsewhere {
				w.maxElsewhere, w.tcpPath = sent, strings.Replace(c.Name, " ", " to ", 1)
			}
			w.elsewhere += sent
		case record.KindInterface:
			at := place{machine, carried.Namespace, c.Name}
			w.sent[at] = max(w.sent[at], sent)
			w.packets[at] = max(w.packets[at], float64(c.SentPackets))
		case record.KindPort:
			name := machine + c.Name
			w.port[name] = max(w.port[name], sent)
			w.portPackets[name] = max(w.portPackets[name], float64(c.SentPackets))
		}
	}
}

// count adds up the messages that went over the transport.
func (w *pathWindow) count(r *result.Repeat) {
	var requests, values, here, there, kernel float64 // here and there: requests at proxies
	var measured float64                              // requests in the windows of the threads
	for _, c := range r.Clients() {
		requests += float64(c.Issued)
		measured += float64(c.Ops() + c.Operations[config.OpRMW].Count)
		if completed := c.Ops() + c.Operations[config.OpRMW].Count; completed > 0 {
			values += float64(c.PayloadBytes) * float64(c.Issued) / float64(completed)
		}
	}
	for _, d := range r.Daemons() {
		measured += float64(d.Requests)
		if d.Proxy != nil {
			here, there = here+float64(d.Proxy.FromClients), there+float64(d.Proxy.Remote)
		}
	}
	for _, t := range record.Threads(r.Ranks) {
		for _, s := range t.Transport {
			if s.Name == transport.StatKernelBytes {
				kernel += float64(s.Value)
			}
		}
	}
	remote := 1.0
	if here > 0 {
		remote = there / here
	}
	w.messages, w.own = 2*remote*requests, kernel
	w.posted = w.messages*config.MessageHeader + remote*values
	w.measured = min(1, measured/max(2*requests, 1))
}

// pathVerdict is what one window's counters show.
type pathVerdict struct {
	counted   float64
	deviation float64 // from the payload, as a share of it
	problem   string
	severity  result.Severity // of the problem, if it is not that of the check
	unknown   string          // why nothing counts the bytes
}

func (w *pathWindow) judge() pathVerdict {
	if w.elsewhere > pathBound*w.posted+pathSlack {
		return pathVerdict{deviation: w.elsewhere / w.posted, problem: fmt.Sprintf(
			"%s went over TCP from %s, which the transport does not state, beside %s of payload",
			format.Bytes(w.elsewhere), w.tcpPath, format.Bytes(w.posted))}
	}
	for carrier := range w.carriers {
		switch carrier {
		case transport.MediumTCP, transport.MediumUDP, transport.MediumVerbs:
		case transport.MediumUnix:
			if len(w.carriers) > 1 || w.own == 0 {
				return pathVerdict{
					unknown: "nothing but the transport counts the bytes of Unix sockets"}
			}
			// Both ends count, each what it sent and received.
			w.posted *= w.measured
			return w.atLeast(w.own/2, "by the transport's own count, Unix sockets")
		default:
			return pathVerdict{unknown: fmt.Sprintf("the kernel counts no bytes of %s, and no "+
				"TCP connection of the ranks carried payload", carrier)}
		}
	}
	switch {
	case w.carriers[transport.MediumVerbs]:
		v := w.atLeast(w.portBytes(), "the RDMA port")
		if v.counted == 0 && w.uncounted != "" {
			return pathVerdict{unknown: "nothing was counted at the RDMA port: " + w.uncounted}
		}
		if v.problem != "" && w.sharedPort {
			return pathVerdict{
				unknown: "the ranks share an RDMA port, which does not count what it sends to " +
					"itself"}
		}
		return v
	case len(w.interfaces) == 0:
		return pathVerdict{unknown: "the kernel knows no route for the path"}
	}
	overInterface := w.atLeast(w.interfaceBytes(), "the path's interface")
	if w.carriers[transport.MediumUDP] {
		return overInterface
	}
	v := w.atLeast(w.tcp, "the path's TCP connections")
	if v.problem == "" && overInterface.problem != "" {
		return overInterface
	}
	limit := (1+pathBound)*w.posted + w.overhead*w.messages + pathSlack
	if v.problem == "" && w.overhead > 0 && w.tcp > limit {
		v.deviation, v.severity = w.tcp/w.posted-1, result.Warning
		v.problem = fmt.Sprintf("the path's TCP connections carried %s, more than %s of payload "+
			"and the stated %.0f bytes a message allow",
			format.Bytes(w.tcp), format.Bytes(w.posted), w.overhead)
	}
	return v
}

// atLeast requires that a carrier counted the payload.
func (w *pathWindow) atLeast(counted float64, carrier string) pathVerdict {
	v := pathVerdict{counted: counted, deviation: max(0, 1-counted/w.posted)}
	if counted < (1-pathBound)*w.posted-pathSlack {
		v.problem = fmt.Sprintf("%s carried %s of %s of payload%s", carrier, format.Bytes(counted),
			format.Bytes(w.posted), w.detour())
	}
	return v
}

// The headers of IPv4 and of UDP or TCP, which an interface counts with each packet. Those of
// Ethernet count everywhere but on the loopback interface.
const (
	datagramHeaders = 20 + 8
	segmentHeaders  = 20 + 20
)

// interfaceBytes returns what the path's interfaces sent, without the headers of the kernel.
func (w *pathWindow) interfaceBytes() (sum float64) {
	headers := float64(segmentHeaders)
	if w.carriers[transport.MediumUDP] {
		headers = datagramHeaders
	}
	for at := range w.interfaces {
		sum += max(0, w.sent[at]-headers*w.packets[at])
	}
	return sum
}

// portBytes returns what the path's ports sent. A path without a port takes all of its device. A
// driver that counts packets only may have filled each.
func (w *pathWindow) portBytes() (sum float64) {
	for _, name := range slices.Sorted(maps.Keys(w.port)) {
		device, _, _ := strings.Cut(name, "/")
		if !w.ports[name] && !w.ports[device+"/0"] {
			continue
		}
		if bytes := w.port[name]; bytes > 0 {
			sum += bytes
		} else {
			w.packetsOnly = true
			sum += w.portPackets[name] * maxRDMAPacket
		}
	}
	return sum
}

// detour names the interface that carried most and is not of the path.
func (w *pathWindow) detour() string {
	var other place
	for at, sent := range w.sent {
		if !w.interfaces[at] && sent > w.sent[other] {
			other = at
		}
	}
	if w.sent[other] < pathSlack {
		return ""
	}
	return fmt.Sprintf("; %s, which is no part of it, sent %s", other.name,
		format.Bytes(w.sent[other]))
}
