package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"transportbench/core/base/printable"
	"transportbench/core/lab/store/format"
)

// Paths are the measured paths between hosts, from each to each.
type Paths struct {
	Hosts []string `json:"hosts"`
	// RoundTripNS is the median of a thousand messages of 64 bytes over TCP, and Rate what one
	// connection carries, in bytes per second. Both are 0 from a host to itself, and where Failures
	// has a text.
	RoundTripNS [][]float64 `json:"round_trip_ns"`
	Rate        [][]float64 `json:"bytes_per_second"`
	Failures    [][]string  `json:"failures"`
}

// ParsePaths returns the paths in the output of doctor --hosts --json.
func ParsePaths(text []byte) (*Paths, error) {
	var found []Finding
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("not the output of doctor --hosts --json: %w", err)
	}
	for _, f := range found {
		if p := f.Paths; p != nil {
			n := len(p.Hosts)
			if !square(p.RoundTripNS, n) || !square(p.Rate, n) || !square(p.Failures, n) {
				return nil, fmt.Errorf("paths between %d hosts without %[1]d rows of %[1]d", n)
			}
			printable.Strings(p)
			return p, nil
		}
	}
	return nil, errors.New("no paths between hosts: use the output of doctor --hosts --json")
}

func square[T any](rows [][]T, n int) bool {
	return len(rows) == n && !slices.ContainsFunc(rows, func(r []T) bool { return len(r) != n })
}

// Add adds the path from one host to another; err is why there is none. Hosts are to be set.
func (p *Paths) Add(from, to int, roundTripNS, rate float64, err error) {
	if p.Failures == nil {
		for range p.Hosts {
			p.RoundTripNS = append(p.RoundTripNS, make([]float64, len(p.Hosts)))
			p.Rate = append(p.Rate, make([]float64, len(p.Hosts)))
			p.Failures = append(p.Failures, make([]string, len(p.Hosts)))
		}
	}
	if err != nil {
		if unnamed := errors.Unwrap(err); unnamed != nil {
			err = unnamed // without the host that measured
		}
		p.Failures[from][to] = err.Error()
		return
	}
	p.RoundTripNS[from][to], p.Rate[from][to] = roundTripNS, rate
}

// slowPath is the share of the median bandwidth below which a path is unlike the others.
const slowPath = 0.5

// Judge returns a finding for each path that does not work or is much slower than the others, and
// one with all of them.
func (p *Paths) Judge() []Finding {
	var findings []Finding
	var rates, times []float64
	for from := range p.Hosts {
		for to := range p.Hosts {
			if p.Rate[from][to] > 0 {
				rates, times = append(rates, p.Rate[from][to]), append(times,
					p.RoundTripNS[from][to])
			}
		}
	}
	slices.Sort(rates)
	slices.Sort(times)
	for from, name := range p.Hosts {
		for to, peer := range p.Hosts {
			f := Finding{Name: fmt.Sprintf("path from %s to %s", name, peer)}
			switch {
			case from == to:
				continue
			case p.Failures[from][to] != "":
				f.Value = p.Failures[from][to]
				findings = append(findings, f.as(Bad,
					"Ranks on these hosts cannot call each other, though both reach the "+
						"coordinator.",
					"Look at the routes, firewalls and switches between the two; --path-network "+
						"tests other addresses."))
			case p.Rate[from][to] < slowPath*rates[len(rates)/2]:
				f.Value = fmt.Sprintf("%s, where the median of all paths is %s",
					format.Number(p.Rate[from][to], "B/s"),
					format.Number(rates[len(rates)/2], "B/s"))
				findings = append(findings, f.as(Warn,
					"Ranks on these hosts are slower than others.",
					"Look at the speed, errors and load of the links between the two."))
			}
		}
	}
	all := Finding{Name: "paths", Status: OK, Paths: p, Value: "none works",
		Meaning: "Each host reaches each other with small and with full packets."}
	if len(rates) > 0 {
		all.Value = fmt.Sprintf("%s, round trip %s to %s, %s to %s",
			format.Count(len(rates), "path"), format.Number(times[0], "ns"),
			format.Number(times[len(times)-1], "ns"), format.Number(rates[0], "B/s"),
			format.Number(rates[len(rates)-1], "B/s"))
	}
	if len(findings) > 0 {
		all.Status, all.Meaning = Note, "The paths above are unlike the others."
	}
	return append(findings, all)
}
