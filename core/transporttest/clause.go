package transporttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
)

// clause is one sentence of the contract.
type clause struct {
	name string // group/subject, a subtest's name
	says string // the sentence, printed with a failure
	// needs are the declarations without which the clause does not apply.
	needs []need
	// alone marks clauses that measure the whole process.
	alone bool
	run   func(*trial)
}

// missing returns the first need that is not met, or an empty string.
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
		postClauses, flowClauses, flushClauses, pollClauses, callClauses, threadClauses,
		peerClauses,
		closeClauses, errorClauses, waitClauses, statsClauses, pathClauses, seriesClauses,
		traceClauses, probeClauses, deviceClauses,
		microClauses, allocClauses)
}

// Clause is one sentence of the contract.
type Clause struct {
	Name  string // group/subject, as of the subtest
	Says  string
	Alone bool // it measures the whole process
}

// Clauses returns the clauses of the suite.
func Clauses() (list []Clause) {
	for _, c := range clauses() {
		list = append(list, Clause{c.name, c.says, c.alone})
	}
	return list
}

// clauseNamed returns the clause with this name.
func clauseNamed(name string) (clause, error) {
	var names []string
	for _, c := range clauses() {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return clause{}, fmt.Errorf("no clause %q%s", name, suggest.For(name, names))
}

// traits are the declarations of an open transport.
type traits struct {
	info       transport.Info
	properties transport.Properties
	killable   bool
	waiter     bool
	prober     bool
	stats      bool
	paths      bool
	recorder   bool
	micro      bool
}

type need struct {
	name string
	met  func(traits) bool
}

var (
	needsOrder = need{"Capabilities.Ordered",
		func(tr traits) bool { return tr.properties.Capabilities.Ordered }}
	needsLostPeer = need{"Capabilities.TellsPeerLost",
		func(tr traits) bool { return tr.properties.Capabilities.TellsPeerLost }}
	needsWaits = need{"Capabilities.Waits",
		func(tr traits) bool { return tr.properties.Capabilities.Waits && tr.waiter }}
	// Allocations are counted for the whole process, so they cannot be distinguished from those of
	// the transport's goroutines.
	needsNoGoroutines = need{"Capabilities.Goroutines of false",
		func(tr traits) bool { return !tr.properties.Capabilities.Goroutines }}
	needsInFlight = need{"Limits.InFlight",
		func(tr traits) bool { return tr.properties.Limits.InFlight > 0 }}
	needsProber   = need{"Prober", func(tr traits) bool { return tr.prober }}
	needsPaths    = need{"PathReader", func(tr traits) bool { return tr.paths }}
	needsRecorder = need{"Recorder", func(tr traits) bool { return tr.recorder }}
	needsTraces   = need{"Capabilities.Traces",
		func(tr traits) bool { return tr.properties.Capabilities.Traces && tr.recorder }}
	needsMicro = need{"Microbenchmarker", func(tr traits) bool { return tr.micro }}
	needsStats = need{"StatsReader", func(tr traits) bool { return tr.stats }}
	needsKill  = need{"Suite.Kill", func(tr traits) bool { return tr.killable }}
	needsRoom  = need{"Limits.Peers of 2 or more",
		func(tr traits) bool { return tr.properties.Limits.Peers >= 2 }}
)

// survey opens one rank and returns its traits.
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
		_, tr.paths = worker.(transport.PathReader)
		_, tr.recorder = worker.(transport.Recorder)
		_, tr.micro = s.Driver.(transport.Microbenchmarker)
	}})
	if failed {
		return tr, errors.New(strings.Join(lines, "\n"))
	}
	if surveyErr != nil {
		return tr, fmt.Errorf("transport %s: %w", tr.info.Name, surveyErr)
	}
	return tr, nil
}
