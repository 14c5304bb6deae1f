package erpc

import "transportbench/core/transport"

// counts are what ReadStats tells.
type counts struct {
	calls, requests, backlogged, backlogFull, noCredit, pulls       uint64
	timeouts, retransmitted, duplicates, repeated, stale            uint64
	outOfOrder, malformed, corrupt, forged, strangers, early        uint64
	refused, handshakes, abandoned, parked                          uint64
	bypassed, paced, rateBypassed, rateSamples, rateFell, rateLeast uint64
	rateSum                                                         uint64
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &w.counts
	dst = append(dst,
		transport.Stat{Name: "calls", Help: "calls that got a slot", Value: c.calls},
		transport.Stat{Name: "requests", Help: "requests that were handed out, each once", Value: c.requests},
		transport.Stat{Name: "backlogged", Help: "calls that had to wait for a slot", Value: c.backlogged},
		transport.Stat{Name: "backlog_full", Help: "posts that found as many calls in flight as there may be", Value: c.backlogFull},
		transport.Stat{Name: "insufficient_credit", Help: "times that a session had more to send than credit", Value: c.noCredit},
		transport.Stat{Name: "pulls", Help: "requests for response sent", Value: c.pulls},
		transport.Stat{Name: "timeouts", Help: "times that a slot had no progress for an RTO and went back", Value: c.timeouts},
		transport.Stat{Name: "retransmitted", Help: "packets that a client sent again", Value: c.retransmitted},
		transport.Stat{Name: "spurious_answers", Help: "answers to packets that were answered before: each tells of a retransmission that was not needed, or of a duplicate on the way", Value: c.duplicates},
		transport.Stat{Name: "repeated_requests", Help: "packets of clients that came again and were answered again, and not run again", Value: c.repeated},
		transport.Stat{Name: "stale_requests", Help: "packets of clients about requests that are over", Value: c.stale},
		transport.Stat{Name: "out_of_order", Help: "packets dropped because one before them is missing", Value: c.outOfOrder},
		transport.Stat{Name: "malformed", Help: "packets dropped because they make no sense", Value: c.malformed},
		transport.Stat{Name: "corrupt", Help: "packets dropped for their check", Value: c.corrupt},
		transport.Stat{Name: "forged", Help: "packets dropped because they come from elsewhere than their session", Value: c.forged},
		transport.Stat{Name: "strangers", Help: "packets dropped because their session is not known here", Value: c.strangers},
		transport.Stat{Name: "early", Help: "packets of sessions that were not connected yet, or not any more", Value: c.early},
		transport.Stat{Name: "send_refused", Help: "packets that the device had no room for, and that were held for a moment", Value: c.refused},
		transport.Stat{Name: "handshakes", Help: "packets of the handshake sent", Value: c.handshakes},
		transport.Stat{Name: "handshakes_abandoned", Help: "peers that were connected to and taken for lost, since they never answered", Value: c.abandoned},
		transport.Stat{Name: "parked", Help: "times that the thread gave its core away", Value: c.parked},
		transport.Stat{Name: "wheel_bypassed", Help: "packets that a client sent without a look at the pacing wheel", Value: c.bypassed},
		transport.Stat{Name: "paced", Help: "packets that waited in the pacing wheel for the session's rate", Value: c.paced},
		transport.Stat{Name: "rate_bypassed", Help: "round trips that needed no computation, since the network is not congested", Value: c.rateBypassed},
		transport.Stat{Name: "rate_samples", Help: "round trips that went into a session's rate", Value: c.rateSamples},
		transport.Stat{Name: "rate_sum", Help: "the rates after those, in bytes per second; over rate_samples, the mean rate", Value: c.rateSum},
		transport.Stat{Name: "rate_fell", Help: "of rate_samples, those that lowered the rate", Value: c.rateFell},
		transport.Stat{Name: "rate_least", Help: "of rate_samples, those after which the rate was the least there is", Value: c.rateLeast},
	)
	return w.port.ReadStats(dst)
}
