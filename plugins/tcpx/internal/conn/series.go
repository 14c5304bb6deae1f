package conn

import (
	"strings"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

// timeSeries is where time went in each part of a window.
type timeSeries struct {
	parts       []timeBreakdown
	length      int64 // of a part in nanoseconds; 0 if nothing is traced
	next        int64 // when the current part ends
	current     int
	connections int
}

// StartRecording begins to book time in parts of a window, of which each connection has its share,
// and to trace requests.
func (k *Counters) StartRecording(r transport.Recording, connections int) {
	length := max(1, int64(r.Window)/int64(max(r.Parts, 1)))
	k.series = timeSeries{parts: make([]timeBreakdown, r.Parts), length: length,
		next: clock.Now() + length, connections: connections}
	k.trace = make([]traced, 0, r.Transfers)
}

// ReadRecording returns what was recorded since StartRecording.
func (k *Counters) ReadRecording() transport.Recorded {
	return transport.Recorded{Series: k.series.read(nil), Transfers: k.transfers()}
}

// read appends the parts as shares and means. It leaves out reasons that never occurred.
func (t *timeSeries) read(dst []transport.Series) []transport.Series {
	add := func(name, help, remedy string, of func(*timeBreakdown) float64) {
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
	perBusy := func(index int) func(*timeBreakdown) float64 {
		return func(p *timeBreakdown) float64 {
			return float64(p[index]) / float64(max(p[busyTime], 1))
		}
	}
	whole := float64(t.length) * float64(max(t.connections, 1))
	add("busy", "share of the time in which a connection had anything under way; the shares "+
		"below are of this", "",
		func(p *timeBreakdown) float64 { return float64(p[busyTime]) / whole })
	add("send_window", "mean of requests cut and not freed", "", perBusy(sendOccupancy))
	add("flight_window", "mean of receives in flight", "", perBusy(flightOccupancy))
	add("pending_window", "mean of receives being unpacked", "", perBusy(pendingOccupancy))
	for i := firstReason; i < breakdownCount; i++ {
		r := &reasons[i]
		add(strings.TrimSuffix(r.name, "_ns"), r.help, r.remedy, perBusy(i))
	}
	return dst
}

// add books time of a connection that ends now. Time that crosses the end of a part is
// divided evenly; time outside of all parts is dropped.
func (t *timeSeries) add(now int64, time *timeBreakdown) {
	for now >= t.next && t.current < len(t.parts) {
		t.current++
		t.next += t.length
	}
	from := now - int64(time[busyTime])
	for at, end := t.current, t.next; at >= 0; at, end = at-1, end-t.length {
		begin := end - t.length
		if at < len(t.parts) {
			t.parts[at].addShare(time, min(now, end)-max(from, begin))
		}
		if from >= begin {
			return
		}
	}
}
