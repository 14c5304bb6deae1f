package cellpage

import (
	"math"
	"time"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/result"
)

// startOf returns the phases of a start, as means over the launches of the results, or nil if no
// launch has them all. Each phase is that of the slowest rank, as in the metrics of the setup.
func startOf(results []*result.Result) *analyze.Breakdown {
	var launches, registered, opened, exchanged, connected, called, closed float64
	for _, r := range results {
		for i := range r.Launches {
			s := &r.Launches[i].Setup
			if len(s.Ranks) == 0 || s.CloseMS == 0 {
				continue
			}
			var register, open, connect, call uint64
			for _, rank := range s.Ranks {
				if took := rank.OpenNS + rank.WorkersNS; took > open {
					open, register = took, min(rank.RegisterNS, took)
				}
				connect, call = max(connect, rank.ConnectAllNS), max(call, rank.FirstCallMaxNS)
			}
			launches++
			registered += float64(register)
			opened += float64(open - register)
			exchanged += s.ExchangeNS()
			connected += float64(connect)
			called += float64(call)
			closed += s.CloseMS * float64(time.Millisecond)
		}
	}
	if launches == 0 {
		return nil
	}
	b := &analyze.Breakdown{Name: StartTitle, Title: StartTitle}
	add := func(name, inside, help string, sum float64) {
		if sum > 0 {
			b.Parts = append(b.Parts, analyze.Part{Name: name, Inside: inside, Mean: sum / launches,
				Help: help})
			b.Whole += sum / launches
		}
	}
	add("register", "open", "registering memory with a device or a library", registered)
	add("open", "", "opening the transport and making its workers", opened)
	add("exchange", "", "addresses, to all ranks", exchanged)
	add("connect", "", "all connections of a rank", connected)
	add("first call", "", "the slowest first call on a connection", called)
	add("close", "", "closing all ranks", closed)
	for i := range b.Parts {
		b.Parts[i].Share = b.Parts[i].Mean / b.Whole
	}
	return b
}

// StartTitle is the title of the phases of a start.
const StartTitle = "What a start takes"

// connectionsOf returns how many sides of connections the rank with most of them made in a start; 0
// if the results do not say.
func connectionsOf(results []*result.Result) int {
	connections := uint64(0)
	for _, r := range results {
		for i := range r.Launches {
			for _, rank := range r.Launches[i].Setup.Ranks {
				connections = max(connections, rank.Connections)
			}
		}
	}
	return int(min(connections, math.MaxInt32))
}
