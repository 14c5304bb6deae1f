package erpc

import (
	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

// counts are the counters of ReadStats.
type counts struct {
	calls, requests, backlogged, callsFull, noCredit, rfrs        uint64
	timeouts, retransmitted, duplicates, repeated, stale          uint64
	outOfOrder, malformed, corrupt, forged, strangers, early      uint64
	refused, handshakes, abandoned, parked                        uint64
	bypassed, paced, rateBypassed, rateSamples, rateFell, minRate uint64
	rateSum                                                       uint64
	copies, copiedBytes, checksummed                              uint64
}

// countCopy counts a copy of a payload, or of a packet's part of it.
func (c *counts) countCopy(bytes int) {
	if bytes > 0 {
		c.copies++
		c.copiedBytes += uint64(bytes)
	}
}

// work returns what the worker and its port have done for the messages.
func (w *worker) work() control.Work {
	c := &w.counts
	return control.Work{Copies: c.copies, CopiedBytes: c.copiedBytes,
		ChecksummedBytes: c.checksummed}.Plus(w.port.Work())
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &w.counts
	dst = append(w.work().Append(dst),
		transport.Stat{Name: "calls", Help: "calls that got a slot", Value: c.calls},
		transport.Stat{Name: "requests", Help: "requests handed out, each once", Value: c.requests},
		transport.Stat{Name: "backlogged", Help: "calls that had to wait for a slot",
			Value: c.backlogged},
		transport.Stat{Name: "backlog_full", Means: transport.MeansShortage,
			Help: "posts refused because the maximum of calls was in flight", Value: c.callsFull},
		transport.Stat{Name: "insufficient_credit", Means: transport.MeansShortage,
			Help: "times a session had packets to send and no credit", Value: c.noCredit},
		transport.Stat{Name: "pulls", Help: "requests for response (RFRs) sent", Value: c.rfrs},
		transport.Stat{Name: "timeouts",
			Help: "times a slot made no progress for an RTO and went back", Value: c.timeouts},
		transport.Stat{Name: "retransmitted", Means: transport.MeansRetransmission,
			Help:  "packets that a client sent again",
			Value: c.retransmitted},
		transport.Stat{Name: "spurious_answers", Help: "answers to packets that were already " +
			"answered, because of an unnecessary retransmission or a duplicated packet",
			Value: c.duplicates},
		transport.Stat{Name: "repeated_requests",
			Help:  "repeated packets of clients, answered again but not run again",
			Value: c.repeated},
		transport.Stat{Name: "stale_requests",
			Help: "packets of clients for requests that are over", Value: c.stale},
		transport.Stat{Name: "out_of_order",
			Help: "packets dropped because an earlier one is missing", Value: c.outOfOrder},
		transport.Stat{Name: "malformed",
			Help: "packets dropped because they contradict the protocol", Value: c.malformed},
		transport.Stat{Name: "corrupt", Help: "packets dropped because of their checksum",
			Value: c.corrupt},
		transport.Stat{Name: "forged", Means: transport.MeansStranger,
			Help:  "packets dropped because they do not come from their session's peer",
			Value: c.forged},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help:  "packets dropped because their session is unknown",
			Value: c.strangers},
		transport.Stat{Name: "early",
			Help: "packets dropped because their session is not established", Value: c.early},
		transport.Stat{Name: "send_refused",
			Help: "packets held for a moment because the device had no room", Value: c.refused},
		transport.Stat{Name: "handshakes", Help: "packets of the handshake sent",
			Value: c.handshakes},
		transport.Stat{Name: "handshakes_abandoned",
			Help:  "peers declared lost because they never answered the handshake",
			Value: c.abandoned},
		transport.Stat{Name: "parked", Help: "times the thread slept", Value: c.parked},
		transport.Stat{Name: "wheel_bypassed",
			Help: "packets that a client sent without the pacing wheel", Value: c.bypassed},
		transport.Stat{Name: "paced",
			Help: "packets held in the pacing wheel for the session's rate", Value: c.paced},
		transport.Stat{Name: "rate_bypassed",
			Help:  "round trips that needed no rate update because the network was uncongested",
			Value: c.rateBypassed},
		transport.Stat{Name: "rate_samples", Help: "round trips that updated a session's rate",
			Value: c.rateSamples},
		transport.Stat{Name: "rate_sum", Help: "sum of the rates after these updates in bytes " +
			"per second; divided by rate_samples, the mean rate", Value: c.rateSum},
		transport.Stat{Name: "rate_fell", Help: "updates that lowered the rate", Value: c.rateFell},
		transport.Stat{Name: "rate_least", Help: "updates after which the rate was the minimum",
			Value: c.minRate},
	)
	return w.port.ReadStats(dst)
}
