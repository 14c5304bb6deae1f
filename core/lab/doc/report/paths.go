package report

import (
	"fmt"

	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/store/format"
)

// pathMap shows a figure of the paths from each host to each.
type pathMap struct {
	Title string
	Hosts []string
	Rows  []pathRow
}

// pathRow has the paths from a host.
type pathRow struct {
	Host  string
	Cells []pathCell
}

// pathCell is a path. From a host to itself it is empty.
type pathCell struct{ Class, Share, Text, Failure string }

// pathMaps returns the maps of the round trips and the bandwidths, each relative to the best.
func pathMaps(p *doctor.Paths) []pathMap {
	return []pathMap{
		newPathMap("Round trip of 64 bytes", "ns", p, p.RoundTripNS,
			func(value, best float64) bool { return value < best }),
		newPathMap("Bandwidth of a TCP connection", "B/s", p, p.Rate,
			func(value, best float64) bool { return value > best }),
	}
}

func newPathMap(title, unit string, p *doctor.Paths, values [][]float64,
	better func(value, best float64) bool) pathMap {
	best := 0.0
	for _, row := range values {
		for _, value := range row {
			if value > 0 && (best == 0 || better(value, best)) {
				best = value
			}
		}
	}
	m := pathMap{Title: title, Hosts: p.Hosts}
	for from, host := range p.Hosts {
		row := pathRow{Host: host, Cells: make([]pathCell, len(p.Hosts))}
		for to, value := range values[from] {
			switch failure := p.Failures[from][to]; {
			case failure != "":
				row.Cells[to] = pathCell{Class: "none", Share: "none", Failure: failure}
			case value > 0:
				share := min(value/best, best/value)
				row.Cells[to] = pathCell{Class: fmt.Sprintf("h%d", level(share)),
					Share: percent(share), Text: format.Number(value, unit)}
			}
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}
