package analyze

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Stack is what each layer of a transport adds to an operation, from the medium to a mesh.
type Stack struct {
	Cell      int    `json:"cell"` // of the set: that of client-server
	Transport string `json:"transport"`
	Provider  string `json:"provider,omitempty"`
	// InFlight is 1 for round trips. With more, times are per operation and layers work at the same
	// time, so a layer may add less than nothing.
	InFlight int     `json:"in_flight"`
	Layers   []Layer `json:"layers"`
	// Sums compare operations with the sum of parts that were measured apart. Pipelined operations
	// have none.
	Sums []Sum `json:"sums,omitempty"`
}

// Layer is one layer.
type Layer struct {
	Name string `json:"name"`
	// nanoseconds: the median of round trips, or the mean time per operation
	Time result.Metric `json:"time"`
	// Adds is what it takes longer than the layer before, and Share that part of the highest layer.
	// Low and High are the interval of Adds, absent if there are too few values for one.
	Adds  float64  `json:"adds"`
	Share float64  `json:"share"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// Sum is the time of an operation and that of its parts.
type Sum struct {
	Topology string    `json:"topology"`
	Mean     float64   `json:"mean"` // of the service time, in nanoseconds
	Parts    []SumPart `json:"parts"`
	// Explained is the sum of the parts over Mean: above 1 if parts work at the same time.
	Explained float64 `json:"explained"`
	// Waiting is the share of the time for which the clients' threads were without a processor. It
	// is no part, because others may work for a call meanwhile. It is 0 if unknown.
	Waiting float64 `json:"waiting,omitempty"`
}

// SumPart is one part of a [Sum].
type SumPart struct {
	Name string  `json:"name"`
	NS   float64 `json:"ns"`
}

// stackAlpha is the error of the intervals of a stack.
const stackAlpha = 0.05

// StacksOf returns the stacks of a set: of each transport whose calls between a client and a server
// were measured with a probe of the transport itself, and which has a mesh under the same load.
func StacksOf(s *set.Set) (list []Stack) {
	states := state.NewClassifier(s)
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Run == nil || c.Run.Mesh() || c.OpenLoop() ||
			meshOf(s, c, config.TopologyMeshDirect, 1) == nil {
			continue
		}
		switch {
		case len(c.Samples[result.Bare]) > 0:
			list = append(list, roundTrips(s, i, states))
		case len(c.Samples[result.BareRate]) > 0:
			list = append(list, pipelined(s, i, states))
		}
	}
	return list
}

// stackBuilder adds layers from the medium upwards.
type stackBuilder struct {
	Stack
	set    *set.Set
	states state.Classifier
	last   compare.Values
}

func newStack(s *set.Set, cell int, states state.Classifier, inFlight int) *stackBuilder {
	c := &s.Cells[cell]
	return &stackBuilder{Stack: Stack{Cell: cell, Transport: c.Transport(),
		Provider: c.Plugin.Provider, InFlight: inFlight}, set: s, states: states}
}

// add adds a layer unless it was not measured. Rates are turned into times.
func (b *stackBuilder) add(name string, c *set.Cell, metric string) {
	if c == nil || len(c.Samples[metric]) == 0 {
		return
	}
	if metric == result.Throughput {
		c = perOperation(c)
		metric = timePerOp
	}
	now := compare.Values{Cell: c, Metric: metric}
	l := Layer{Name: name, Time: result.Summarize(metric, c.Samples[metric])}
	l.Time.Unit, l.Adds = "ns", l.Time.Median
	if b.last.Cell != nil {
		l.Adds -= b.Layers[len(b.Layers)-1].Time.Median
		if shift, ok := compare.NewShift(b.last, now, ranktest.Subtract, b.states, stackAlpha); ok {
			l.Low, l.High = shift.Low, shift.High
		}
	}
	b.Layers, b.last = append(b.Layers, l), now
}

// addPart adds the layer that a microbenchmark of the transport measures alone, with one call in
// flight or with several.
func (b *stackBuilder) addPart(lone bool, metric string) {
	for i := range b.set.Cells {
		c := &b.set.Cells[i]
		if c.Layer != "" && c.Transport() == b.Transport &&
			lone == (len(c.Samples[result.LatencyP50]) > 0) {
			b.add(c.Layer, c, metric)
			return
		}
	}
}

// timePerOp is one over the throughput.
const timePerOp = "time_per_op"

func perOperation(c *set.Cell) *set.Cell {
	one := *c
	times := make([]float64, len(c.Samples[result.Throughput]))
	for i, rate := range c.Samples[result.Throughput] {
		times[i] = 1e9 / rate
	}
	one.Samples = map[string][]float64{timePerOp: times}
	return &one
}

func (b *stackBuilder) finish() Stack {
	top := 0.0
	for i := range b.Layers {
		top = max(top, b.Layers[i].Time.Median)
	}
	for i := range b.Layers {
		b.Layers[i].Share = b.Layers[i].Adds / top
	}
	return b.Stack
}

// mediumName names the floor of a cell.
func mediumName(s *set.Set, c *set.Cell) string {
	if results, err := s.Results(c); err == nil {
		for _, r := range results {
			for i := range r.Repeats {
				if f := r.Repeats[i].Before.Medium; f != nil {
					return f.Name
				}
			}
		}
	}
	return "medium"
}

// roundTrips is the stack of one call in flight.
func roundTrips(s *set.Set, cell int, states state.Classifier) Stack {
	b, c := newStack(s, cell, states, 1), &s.Cells[cell]
	medium := mediumName(s, c)
	if line := "cache-line bounce"; medium != line {
		b.add(line, c, result.CoreDistance)
	}
	b.add(medium, c, result.Floor)
	b.addPart(true, result.LatencyP50)
	b.add("library", c, result.Library)
	b.add("transport, without the runtime", c, result.Bare)
	b.add(config.TopologyClientServer, c, result.LatencyP50)
	direct, proxied := meshOf(s, c, config.TopologyMeshDirect, 1),
		meshOf(s, c, config.TopologyMeshProxied, 1)
	b.add(config.TopologyMeshDirect, direct, result.LatencyP50)
	b.add(config.TopologyMeshProxied, proxied, result.LatencyP50)
	b.sum(proxied, SumPart{"transport", proxied.Median(result.Bare)},
		SumPart{"request to the own daemon",
			meshOf(s, c, config.TopologyMeshProxied, 0).Median(result.LatencyMean)})
	return b.finish()
}

// pipelined is the stack of several calls in flight.
func pipelined(s *set.Set, cell int, states state.Classifier) Stack {
	c := &s.Cells[cell]
	b := newStack(s, cell, states, c.Run.InFlight)
	b.add(mediumName(s, c), c, result.RateFloor)
	b.addPart(false, result.Throughput)
	b.add("transport, without the runtime", c, result.BareRate)
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshDirect,
		config.TopologyMeshProxied} {
		of := c
		if topology != config.TopologyClientServer {
			of = meshOf(s, c, topology, 1)
		}
		b.add(topology, of, result.Throughput)
	}
	return b.finish()
}

// Breakdown returns the layers as parts of the highest one, for drawing. A layer that adds less
// than nothing is no part.
func (s *Stack) Breakdown() Breakdown {
	b := Breakdown{Name: "layers, one call in flight", Note: "each layer was measured by itself"}
	if s.InFlight > 1 {
		b.Name = fmt.Sprintf("layers, time per operation with %d calls in flight", s.InFlight)
	}
	b.Title = b.Name
	for i := range s.Layers {
		l := &s.Layers[i]
		b.Whole = l.Time.Median
		if l.Adds > 0 {
			b.Parts = append(b.Parts, Part{Name: l.Name, Mean: l.Adds, Share: l.Share,
				Help: "what this layer adds to those before it"})
		}
	}
	return b
}

// sum adds the sum of an operation unless a part was not measured. What something stopped, by the
// threads' own watch, is a part, too.
func (b *stackBuilder) sum(c *set.Cell, parts ...SumPart) {
	s := Sum{Mean: c.Median(result.LatencyMean), Parts: parts}
	if stopped := s.Mean * c.Median(result.Stalled); stopped > 0 {
		s.Parts = append(s.Parts, SumPart{"stopped threads", stopped})
	}
	for _, p := range s.Parts {
		if p.NS == 0 || s.Mean == 0 {
			return
		}
		s.Explained += p.NS
	}
	s.Explained /= s.Mean
	s.Topology, s.Waiting = c.Run.Topology, waitingOf(b.set, c)
	b.Sums = append(b.Sums, s)
}

// waitingOf returns the share of the time for which the clients' threads were without a processor.
func waitingOf(s *set.Set, c *set.Cell) float64 {
	results, err := s.Results(c)
	if err != nil {
		return 0
	}
	var t totals
	for _, r := range results {
		one := sum(r.Repeats)
		t.clientTime, t.clientCPU = t.clientTime+one.clientTime, t.clientCPU+one.clientCPU
	}
	if t.clientCPU == 0 {
		return 0
	}
	return max(0, 1-t.clientCPU/t.clientTime)
}

// meshOf returns the mesh with the load of c and a share of remote requests, or nil.
func meshOf(s *set.Set, c *set.Cell, topology string, share config.Share) *set.Cell {
	for i := range s.Cells {
		m := &s.Cells[i]
		if m.Run != nil && m.Run.Topology == topology && m.Run.RemoteShare == share &&
			m.Status == set.Measured &&
			m.Key("topology", "remote_share") == c.Key("topology", "remote_share") {
			return m
		}
	}
	return nil
}
