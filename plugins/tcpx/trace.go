package tcpx

import (
	"strings"
	"time"

	"transportbench/core/transport"
)

var _ transport.Tracer = (*worker)(nil)

// trace is what the time of a window went into, part by part.
type trace struct {
	parts       []spent
	length      int64 // of a part; 0 where nothing is traced
	next        int64 // when the part at hand ends
	now         int
	connections int
}

// BeginTrace implements [transport.Tracer].
func (w *worker) BeginTrace(parts int, d time.Duration) {
	t := trace{parts: make([]spent, parts), length: max(1, int64(d)/int64(max(parts, 1)))}
	t.next = clock() + t.length
	for _, p := range w.peers {
		if p != nil && p.state != lost {
			t.connections++
		}
	}
	w.counts.trace = t
}

// ReadTrace implements [transport.Tracer].
func (w *worker) ReadTrace(dst []transport.Series) []transport.Series {
	return w.counts.trace.series(dst)
}

// series are the parts as shares and means. Causes that never were are left out.
func (t *trace) series(dst []transport.Series) []transport.Series {
	add := func(name, help, remedy string, of func(*spent) float64) {
		s := transport.Series{Name: name, Help: help, Remedy: remedy}
		any := false
		for i := range t.parts {
			v := of(&t.parts[i])
			any = any || v > 0
			s.Values = append(s.Values, v)
		}
		if any {
			dst = append(dst, s)
		}
	}
	perBusy := func(n uint64, p *spent) float64 { return float64(n) / float64(max(p.busy, 1)) }
	add("busy", "share of the time in which a connection had anything under way; the shares below are of this", "",
		func(p *spent) float64 { return float64(p.busy) / float64(t.length) / float64(max(t.connections, 1)) })
	add("send_window", "requests sent and not acknowledged, mean", "", func(p *spent) float64 { return perBusy(p.send, p) })
	add("flight_window", "receives in flight, mean", "", func(p *spent) float64 { return perBusy(p.flight, p) })
	add("pending_window", "receives being unpacked, mean", "", func(p *spent) float64 { return perBusy(p.pending, p) })
	for i, c := range causeNames {
		add(strings.TrimSuffix(c.name, "_ns"), c.help, c.remedy, func(p *spent) float64 { return perBusy(p.by[i], p) })
	}
	return dst
}

// add books time of a connection that ends now. What reaches over the ends of parts is
// divided among them evenly, and what is outside of them all is left out.
func (t *trace) add(now int64, spent *spent) {
	for now >= t.next && t.now < len(t.parts) {
		t.now++
		t.next += t.length
	}
	from := now - int64(spent.busy)
	for at, end := t.now, t.next; at >= 0; at, end = at-1, end-t.length {
		begin := end - t.length
		if at < len(t.parts) {
			t.parts[at].addShare(spent, min(now, end)-max(from, begin))
		}
		if from >= begin {
			return
		}
	}
}
