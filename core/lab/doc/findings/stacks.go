package findings

import (
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
)

// enough is the share of an operation that the sum of its parts has to explain.
const enough = 0.95

// Stacks returns what each layer of a transport adds.
func Stacks(list []analyze.Stack) *doc.Doc {
	out := new(doc.Doc)
	for i := range list {
		s := &list[i]
		if i > 0 {
			out.Gap()
		}
		name, header := strings.TrimSpace(s.Transport+" "+s.Provider), ">ping-pong"
		if s.InFlight == 1 {
			out.Line("%s, one call in flight: the median round trip, and what each layer adds",
				name)
		} else {
			out.Line("%s, %d calls in flight: the time per operation, and what each layer adds",
				name, s.InFlight)
			header = ">per operation"
		}
		t := doc.NewTable("layer", header, ">adds", ">share", ">95% interval")
		for k := range s.Layers {
			l := &s.Layers[k]
			interval := "-"
			if l.Low != nil {
				interval = format.Number(*l.Low, "ns") + " to " + format.Number(*l.High, "ns")
			}
			t.Row(l.Name, doc.Median(l.Time), doc.Number(l.Adds, "ns"), doc.Part(l.Share), interval)
		}
		out.Add(t)
		for k := range s.Sums {
			writeSum(out, &s.Sums[k])
		}
	}
	if len(list) == 0 {
		out.Line("no stack: the calls between a client and a server have no probes of the " +
			"transport alone")
	}
	return out
}

func writeSum(out *doc.Doc, s *analyze.Sum) {
	var parts []string
	for _, p := range s.Parts {
		parts = append(parts, p.Name+" "+format.Number(p.NS, "ns"))
	}
	verdict := ""
	switch {
	case s.Explained < enough:
		verdict = "; the rest is none of them"
		if s.Waiting > 1-enough {
			verdict += ", and the clients' threads were without a processor for " +
				doc.Part(s.Waiting).Text + " of the time"
		}
	case s.Explained > 2-enough:
		verdict = "; parts work at the same time"
	}
	out.Paragraph("%s: %s, each measured apart, explain %s of the mean service time, %s%s",
		s.Topology, strings.Join(parts, ", "), doc.Part(s.Explained).Text,
		format.Number(s.Mean, "ns"), verdict)
}
