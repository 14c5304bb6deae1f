package transporttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/transport"
)

// clause is one sentence of the contract.
type clause struct {
	name string // group/subject, a subtest's name
	says string // the sentence, printed with a failure
	// needs is what a transport must declare for the clause to hold.
	needs []need
	// alone: the clause measures the process as a whole.
	alone bool
	run   func(*trial)
}

// missing says what the transport would have to declare, or nothing.
func (c *clause) missing(tr traits) string {
	for _, n := range c.needs {
		if !n.met(tr) {
			return n.name
		}
	}
	return ""
}

func clauses() []clause {
	return slices.Concat(infoClauses, openClauses, connectClauses, echoClauses,
		postClauses, flowClauses, flushClauses, pollClauses, callClauses, threadClauses, peerClauses,
		closeClauses, errorClauses, waitClauses, statsClauses, probeClauses, deviceClauses,
		allocClauses)
}

// traits is what a transport declares once it is open.
type traits struct {
	info       transport.Info
	properties transport.Properties
	killable   bool
	waiter     bool
	prober     bool
	stats      bool
}

type need struct {
	name string
	met  func(traits) bool
}

var (
	needsOrder    = need{"Capabilities.Ordered", func(tr traits) bool { return tr.properties.Capabilities.Ordered }}
	needsLostPeer = need{"Capabilities.TellsPeerLost", func(tr traits) bool { return tr.properties.Capabilities.TellsPeerLost }}
	needsWaits    = need{"Capabilities.Waits", func(tr traits) bool { return tr.properties.Capabilities.Waits && tr.waiter }}
	needsInFlight = need{"Limits.InFlight", func(tr traits) bool { return tr.properties.Limits.InFlight > 0 }}
	needsProber   = need{"Prober", func(tr traits) bool { return tr.prober }}
	needsStats    = need{"StatsReader", func(tr traits) bool { return tr.stats }}
	needsKill     = need{"Suite.Kill", func(tr traits) bool { return tr.killable }}
	needsRoom     = need{"Limits.Peers of 2 or more", func(tr traits) bool { return tr.properties.Limits.Peers >= 2 }}
)

// survey opens one rank and notes what it declares.
func survey(s *Suite) (traits, error) {
	tr := traits{info: s.Driver.Info(), killable: s.Kill != nil}
	if reason := tr.info.Unavailable; reason != "" {
		return tr, transport.Unavailable("%s", reason)
	}
	var surveyErr error
	failed, lines := try(s, tr, clause{run: func(t *trial) {
		var rank transport.Transport
		if rank, surveyErr = t.openRank(0, layout{}.complete(t)); surveyErr != nil {
			return
		}
		defer rank.Close()
		var worker transport.Worker
		if worker, surveyErr = rank.NewWorker(0); surveyErr != nil {
			return
		}
		tr.properties = rank.Properties()
		_, tr.waiter = worker.(transport.Waiter)
		_, tr.prober = worker.(transport.Prober)
		_, tr.stats = worker.(transport.StatsReader)
	}})
	if failed {
		return tr, errors.New(strings.Join(lines, "\n"))
	}
	if surveyErr != nil {
		return tr, fmt.Errorf("transport %s: %w", tr.info.Name, surveyErr)
	}
	return tr, nil
}
