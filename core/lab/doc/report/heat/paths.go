package heat

import (
	"fmt"

	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/store/format"
)

// PathMap shows a figure of the paths from each host to each.
type PathMap struct {
	Title string
	Hosts []string
	Rows  []PathRow
}

// PathRow has the paths from a host.
type PathRow struct {
	Host  string
	Cells []PathCell
}

// PathCell is a path. From a host to itself it is empty.
type PathCell struct{ Class, Share, Text, Failure string }

// Paths returns the maps of the round trips and the bandwidths, each relative to the best.
func Paths(p *doctor.Paths) []PathMap {
	return []PathMap{
		pathMap("Round trip of 64 bytes", "ns", p, p.RoundTripNS,
			func(value, best float64) bool { return value < best }),
		pathMap("Bandwidth of a TCP connection", "B/s", p, p.Rate,
			func(value, best float64) bool { return value > best }),
	}
}

func pathMap(title, unit string, p *doctor.Paths, values [][]float64,
	better func(value, best float64) bool) PathMap {
	best := 0.0
	for _, row := range values {
		for _, value := range row {
			if value > 0 && (best == 0 || better(value, best)) {
				best = value
			}
		}
	}
	m := PathMap{Title: title, Hosts: p.Hosts}
	for from, host := range p.Hosts {
		row := PathRow{Host: host, Cells: make([]PathCell, len(p.Hosts))}
		for to, value := range values[from] {
			switch failure := p.Failures[from][to]; {
			case failure != "":
				row.Cells[to] = PathCell{Class: "none", Share: "none", Failure: failure}
			case value > 0:
				share := min(value/best, best/value)
				row.Cells[to] = PathCell{Class: fmt.Sprintf("h%d", Level(share)),
					Share: Percent(share), Text: format.Number(value, unit)}
			}
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}
