package cellpage

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/printable"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Overview has what the overview needs of a cell's results.
type Overview struct {
	Checks []result.Finding
	// Rates are the operations per second in each slice of each repeat.
	Rates    [][]float64
	Analysis *analyze.Analysis
	// Start has the phases of a start of the ranks, and Made counts the connections of the side
	// that has most.
	Start *analyze.Breakdown
	Made  int
}

// Details has what the page of one cell shows besides its summary.
type Details struct {
	Overview
	plugin  any
	results []*result.Result // without repeats
	// service and response are the values of the merged histograms at the grid's shares in ns. They
	// end where fewer than ten samples remain.
	service  []float64
	response []float64
	// loops are what the daemons of each rank did in their loops.
	loops []result.RankLoop
	// classes are the classes of traffic, and flows the pairs of ranks of a pattern.
	classes []result.ClassFigures
	flows   []result.Flow
	// problem is why details are missing.
	problem string
}

// Read reads the results of a cell. Its analysis is of the windows that are shown.
func Read(s *set.Set, c *set.Cell, shown state.Shown) Details {
	d := Details{plugin: c.Plugin}
	if c.Status == set.Failed || c.Status == set.Unavailable {
		return d
	}
	results, err := s.Results(c)
	switch {
	case err != nil:
		d.problem = "The results of this cell cannot be read: " + printable.Text(err.Error())
		return d
	case len(results) == 0:
		d.problem = "The set has no results for this cell."
		return d
	}
	var repeats []result.Repeat
	for _, r := range results {
		run := *r
		run.Repeats = nil
		d.results = append(d.results, &run)
		repeats = append(repeats, r.Repeats...)
		d.Checks = append(d.Checks, r.Checks...)
		d.Rates = append(d.Rates, ratesOf(r)...)
	}
	d.Start, d.Made = startOf(results), connectionsOf(results)
	d.plugin = results[0].Plugin
	d.classes = result.FiguresOf(results[0].Config.Classes, c.Metric)
	var failed [3]error
	d.flows, failed[0] = result.FlowsOf(repeats)
	failed[1] = d.spectra(repeats)
	d.loops, failed[2] = result.RankLoopsOf(repeats)
	if err := cmp.Or(failed[:]...); err != nil {
		d.problem = printable.Text(err.Error())
	}
	if d.Analysis, err = analyze.Results(shown.Results(c, results)); err != nil {
		d.problem = "This cell cannot be analyzed: " + printable.Text(err.Error())
	}
	return d
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// ratesOf returns the operations per second of all clients in each slice of each complete repeat.
func ratesOf(r *result.Result) [][]float64 {
	var list [][]float64
	for _, repeat := range r.Repeats {
		var sums []float64
		whole := true
		for _, report := range repeat.Ranks {
			for _, c := range report.Clients {
				if sums == nil {
					sums = make([]float64, len(c.Slices))
				}
				if whole = whole && len(c.Slices) == len(sums) && len(sums) > 0; !whole {
					break
				}
				for i, n := range c.Slices {
					sums[i] += float64(n)
				}
			}
		}
		if !whole || len(sums) == 0 {
			continue
		}
		slice := time.Duration(r.Config.Duration).Seconds() / float64(len(sums))
		for i := range sums {
			sums[i] = math.Round(sums[i] / slice)
		}
		list = append(list, sums)
	}
	return list
}

// Grid returns the shares at which spectra are read: twelve per decade of 1/(1-share), up to 1e7.
func Grid() []float64 {
	const steps, decades = 12, 7
	list := make([]float64, steps*decades+1)
	for i := range list {
		list[i] = 1 - math.Pow(10, -float64(i)/steps)
	}
	return list
}

// Tick is a place on the axis of a chart, with its text.
type Tick struct {
	X    float64 `json:"x"`
	Text string  `json:"text"`
}

// GridTicks are the grid's places on the axis of a spectrum.
func GridTicks() (list []Tick) {
	for _, share := range Grid() {
		list = append(list, Tick{1 / (1 - share), Share(share)})
	}
	return list
}

// Ticks are those of the axis of a spectrum: the half, and one for each nine.
func Ticks() []Tick {
	list := []Tick{{2, Share(0.5)}}
	for x := 10.0; x <= 1e7; x *= 10 {
		list = append(list, Tick{x, Share(1 - 1/x)})
	}
	return list
}

// enough is the smallest number of samples above a point of a spectrum.
const enough = 10

// spectra sets service and response.
func (d *Details) spectra(repeats []result.Repeat) error {
	var service, response []string
	for _, r := range repeats {
		service, response = append(service, r.Latency), append(response, r.Response)
	}
	var err error
	if d.service, err = spectrum(service); err != nil {
		return err
	}
	d.response, err = spectrum(response)
	return err
}

// spectrum returns the values of the merged histograms at the shares of the grid.
func spectrum(encoded []string) ([]float64, error) {
	merged, err := result.Histograms(encoded...)
	if err != nil {
		return nil, err
	}
	var values []float64
	for _, share := range Grid() {
		if float64(merged.Count())*(1-share) < enough {
			break
		}
		values = append(values, float64(merged.Quantile(share)))
	}
	return values, nil
}

// Cache keeps the details of cells whose files have not changed. A nil cache keeps nothing.
type Cache struct {
	mu    sync.Mutex
	known map[string]cached
}

type cached struct {
	Details
	used bool // since the last sweep
}

// Read is as [Read], but reads a cell again only if its files or the shown windows have changed.
func (c *Cache) Read(s *set.Set, cell *set.Cell, shown state.Shown) Details {
	if c == nil || len(cell.Files) == 0 {
		return Read(s, cell, shown)
	}
	key := keyOf(s, cell) + "\n" + shown.Windows(cell)
	c.mu.Lock()
	have, found := c.known[key]
	c.mu.Unlock()
	if !found {
		have.Details = Read(s, cell, shown)
	}
	have.used = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]cached{}
	}
	if have.problem == "" { // a problem may be temporary
		c.known[key] = have
	}
	return have.Details
}

func keyOf(s *set.Set, cell *set.Cell) string {
	var b strings.Builder
	b.WriteString(s.Source)
	for _, f := range cell.Files {
		fmt.Fprintf(&b, "\n%s %d", f.Name, f.Bytes)
	}
	return b.String()
}

// Sweep drops what was not used since the last call.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, have := range c.known {
		if !have.used {
			delete(c.known, key)
			continue
		}
		have.used = false
		c.known[key] = have
	}
}
