package present

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
)

// enough is the share of an operation that the sum of its parts has to explain.
const enough = 0.95

// Stacks writes what each layer of a transport adds.
func Stacks(w io.Writer, list []analyze.Stack) {
	for i := range list {
		s := &list[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		name, header := strings.TrimSpace(s.Transport+" "+s.Provider), ">ping-pong"
		if s.InFlight == 1 {
			fmt.Fprintf(w, "%s, one call in flight: the median round trip, and what each layer adds\n", name)
		} else {
			fmt.Fprintf(w, "%s, %d calls in flight: the time per operation, and what each layer adds\n", name, s.InFlight)
			header = ">per operation"
		}
		t := newTable(w, "layer", header, ">adds", ">share", ">95% interval")
		for k := range s.Layers {
			l := &s.Layers[k]
			interval := "-"
			if l.Low != nil {
				interval = format.Number(*l.Low, "ns") + " to " + format.Number(*l.High, "ns")
			}
			t.AppendRow(table.Row{l.Name, format.Value(l.Time), format.Number(l.Adds, "ns"), portion(l.Share), interval})
		}
		t.Render()
		for k := range s.Sums {
			writeSum(w, &s.Sums[k])
		}
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no stack: the calls between a client and a server have no probes of the transport alone")
	}
}

func writeSum(w io.Writer, s *analyze.Sum) {
	var parts []string
	for _, p := range s.Parts {
		parts = append(parts, p.Name+" "+format.Number(p.NS, "ns"))
	}
	verdict := ""
	switch {
	case s.Explained < enough:
		verdict = "; the rest is none of them"
		if s.Waiting > 1-enough {
			verdict += ", and the clients' threads were without a processor for " + portion(s.Waiting) + " of the time"
		}
	case s.Explained > 2-enough:
		verdict = "; parts work at the same time"
	}
	paragraph(w, 0, 2, fmt.Sprintf("%s: %s, each measured apart, explain %s of the mean service time, %s%s",
		s.Topology, strings.Join(parts, ", "), portion(s.Explained), format.Number(s.Mean, "ns"), verdict))
}
