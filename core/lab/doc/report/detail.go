package report

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"transportbench/core/base/parallel"
	"transportbench/core/base/printable"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// chunkSize is the number of cells whose details are compressed together. Opening a cell's page
// decompresses that many.
const chunkSize = 16

// brief has what the overview needs of a cell's results.
type brief struct {
	checks   []result.Finding
	rates    [][]float64 // as detail.Rates
	warmups  []result.Warmup
	versions []string // of the commands that measured
	analysis *analyze.Analysis
	start    *analyze.Breakdown
	made     int // connections
}

// details reads the results of all cells and compresses their details, as many chunks at a time as
// there are processors, to save memory.
func (b *builder) details(ctx context.Context) error {
	n := len(b.cells)
	b.briefs, b.chunks = make([]brief, n), make([][]byte, (n+chunkSize-1)/chunkSize)
	err := parallel.Each(len(b.chunks), func(at int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var pages []*cellPage
		for cell := at * chunkSize; cell < min(n, (at+1)*chunkSize); cell++ {
			d, known := b.cache.detailOf(b.sets[b.doc.Cells.Set[cell]], b.cells[cell])
			pages, b.briefs[cell] = append(pages, b.pageOf(cell, &d)), known
		}
		var err error
		b.chunks[at], err = pack(newChunk(pages))
		return err
	})
	for cell, brief := range b.briefs {
		b.doc.Cells.Connections = append(b.doc.Cells.Connections, brief.made)
		if a := brief.analysis; a != nil {
			b.doc.Cells.Bound[cell], b.doc.Cells.Why[cell] = string(a.Verdict.Bound), a.Verdict.Why
		}
	}
	return err
}

// detailOf reads the results of a cell.
func detailOf(s *set.Set, c *set.Cell) (detail, brief) {
	d := detail{Config: c.Config, Plugin: c.Plugin, StartedAt: moment(c.StartedAt),
		Samples: c.Samples, Warnings: c.Warnings}
	if c.Status == set.Failed || c.Status == set.Unavailable {
		return d, brief{}
	}
	results, err := s.Results(c)
	switch {
	case err != nil:
		d.Problem = "The results of this cell cannot be read: " + printable.Text(err.Error())
		return d, brief{}
	case len(results) == 0:
		d.Problem = "The set has no results for this cell."
		return d, brief{}
	}
	var repeats []result.Repeat
	known := brief{}
	for i, r := range results {
		file := ""
		if i < len(c.Files) {
			file = c.Files[i].Name
		}
		d.Runs = append(d.Runs, runOf(r, file))
		repeats = append(repeats, r.Repeats...)
		known.versions = append(known.versions, r.Tool.Version)
		known.checks = append(known.checks, r.Checks...)
		d.Rates = append(d.Rates, ratesOf(r)...)
		if r.Setup.Warmup != nil {
			known.warmups = append(known.warmups, *r.Setup.Warmup)
		}
	}
	known.rates = d.Rates
	known.start, known.made = startOf(results), connectionsOf(results)
	d.Start = known.start
	d.Plugin = results[0].Plugin
	d.Classes = result.FiguresOf(results[0].Config.Classes, c.Metric)
	if d.Flows, err = result.FlowsOf(repeats); err != nil {
		d.Problem = printable.Text(err.Error())
	}
	if err := d.spectra(repeats); err != nil {
		d.Problem = printable.Text(err.Error())
	}
	if d.Loops, err = result.RankLoopsOf(repeats); err != nil {
		d.Problem = printable.Text(err.Error())
	}
	if known.analysis, err = analyze.Results(results); err != nil {
		d.Problem = "This cell cannot be analyzed: " + printable.Text(err.Error())
	}
	d.Analysis = known.analysis
	return d, known
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func runOf(r *result.Result, file string) run {
	why := r.IncompleteReason
	if r.Failure != nil {
		why = strings.TrimSpace(fmt.Sprintf("%s: rank %d, %s: %s", why, r.Failure.Rank,
			r.Failure.Operation, r.Failure.Error))
	}
	return run{
		ID: r.ID, File: file, StartedAt: moment(r.StartedAt), Argv: r.Argv,
		ImpairedBy: r.ImpairedBy, Tool: r.Tool, Placement: r.Placement,
		Setup: r.Setup, Checks: r.Checks, Incomplete: why,
	}
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

// grid returns the shares at which spectra are read: twelve per decade of 1/(1-share), up to 1e7.
func grid() []float64 {
	const steps, decades = 12, 7
	list := make([]float64, steps*decades+1)
	for i := range list {
		list[i] = 1 - math.Pow(10, -float64(i)/steps)
	}
	return list
}

// gridTicks are the grid's places on the axis of a spectrum.
func gridTicks() (list []tick) {
	for _, share := range grid() {
		list = append(list, tick{1 / (1 - share), shareText(share)})
	}
	return list
}

// spectrumTicks are the ticks of the axis: the half, and one for each nine.
func spectrumTicks() []tick {
	list := []tick{{2, shareText(0.5)}}
	for x := 10.0; x <= 1e7; x *= 10 {
		list = append(list, tick{x, shareText(1 - 1/x)})
	}
	return list
}

// enough is the smallest number of samples above a point of a spectrum.
const enough = 10

// spectra sets Service and Response.
func (d *detail) spectra(repeats []result.Repeat) error {
	var service, response []string
	for _, r := range repeats {
		service, response = append(service, r.Latency), append(response, r.Response)
	}
	var err error
	if d.Service, err = spectrum(service); err != nil {
		return err
	}
	d.Response, err = spectrum(response)
	return err
}

// spectrum returns the values of the merged histograms at the shares of the grid.
func spectrum(encoded []string) ([]float64, error) {
	var merged *hdrhistogram.Histogram
	for _, text := range encoded {
		if text == "" {
			continue
		}
		h, err := hdrhistogram.Decode([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("decoding histogram: %w", err)
		}
		if merged == nil {
			merged = h
		} else {
			merged.Merge(h)
		}
	}
	if merged == nil {
		return nil, nil
	}
	var percents []float64
	for _, share := range grid() {
		if float64(merged.TotalCount())*(1-share) < enough {
			break
		}
		percents = append(percents, 100*share)
	}
	at := merged.ValueAtPercentiles(percents)
	var values []float64
	for _, p := range percents {
		values = append(values, float64(at[p]))
	}
	return values, nil
}

// cache keeps the details of cells whose files have not changed. A nil cache keeps nothing.
type cache struct {
	mu    sync.Mutex
	known map[string]cached
}

type cached struct {
	detail detail
	brief  brief
	used   bool // since the last sweep
}

func (c *cache) detailOf(s *set.Set, cell *set.Cell) (detail, brief) {
	if c == nil || len(cell.Files) == 0 {
		return detailOf(s, cell)
	}
	key := keyOf(s, cell)
	c.mu.Lock()
	have, found := c.known[key]
	c.mu.Unlock()
	if !found {
		have.detail, have.brief = detailOf(s, cell)
	}
	have.used = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]cached{}
	}
	if have.detail.Problem == "" { // a problem may be temporary
		c.known[key] = have
	}
	return have.detail, have.brief
}

func keyOf(s *set.Set, cell *set.Cell) string {
	var b strings.Builder
	b.WriteString(s.Source)
	for _, f := range cell.Files {
		fmt.Fprintf(&b, "\n%s %d", f.Name, f.Bytes)
	}
	return b.String()
}

// sweep drops what was not used since the last call.
func (c *cache) sweep() {
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
