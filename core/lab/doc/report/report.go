package report

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/parallel"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/doc/report/replays"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Options configure a report.
type Options struct {
	// Objective limits the throughput in the first part to cells that meet it; nil for none.
	Objective *analyze.Objective
	// Compare configures the comparison of several sets.
	Compare compare.Options
	// Calibrations finds the last calibration of each machine of the sets. They are shown, and set
	// the minimum effect if that is more than in Compare. If it is nil, there are none.
	Calibrations func(sets ...*set.Set) []calibration.Found
	// Paths is the network between the hosts of the sets; nil for none.
	Paths *doctor.Paths
	// Documents are shown beside the sets that have their published figures.
	Documents []*reproduce.Document
	// WhatIf lists changes whose predictions are on the pages of cells with a model.
	WhatIf []string
	// Live makes a page that asks its server for changes, and keeps the details of its cells until
	// it is built again. It is nil for a page that is a file.
	Live *cellpage.Cache
}

// Page is a report that is ready for [Page.Render].
type Page struct {
	doc        *document
	chunks     [][]byte // compressed details
	trust      []trustRow
	phases     []breakdown
	heat       []heatMap
	heatAcross string
	changes    []changeList
	minEffects string
	history    historyPart
	traces     []traces
	calibrated []calibrationView
	documents  []template.HTML
	paths      []pathMap
	handoffs   template.HTML
}

// Build computes a report of one set or several, and compares each with the one before it. It
// reads the results of all cells. A cell whose result cannot be read has no details, and its page
// has the reason. Build fails if no set has a cell.
func Build(ctx context.Context, sets []*set.Set, o Options) (*Page, error) {
	b := &builder{Options: o, sets: sets, doc: &document{
		Live: o.Live != nil, ChunkSize: chunkSize,
		Grid: cellpage.GridTicks(), Ticks: cellpage.Ticks(),
		// The script needs a list, even if it is empty, instead of null.
		Axes: []axis{}, Shown: []shownMetric{}, Cells: cells{Axes: [][]int{}},
	}}
	for _, s := range sets {
		s.Sort()
	}
	b.found = b.calibrationsOf(sets...)
	b.number()
	if len(b.cells) == 0 {
		return nil, errors.New("there is no cell to report on")
	}
	b.columns()
	if err := b.details(ctx); err != nil {
		return nil, err
	}
	b.describe()
	b.curves()
	if err := b.rows(); err != nil {
		return nil, err
	}
	b.rankings()
	b.diffs()
	b.scalings()
	b.doc.Replays = b.replays()
	p := &Page{doc: b.doc, chunks: b.chunks}
	p.heat, p.heatAcross = b.heatMaps(), b.heatAcross()
	b.show(p.heat)
	p.phases = b.breakdowns()
	p.changes, p.minEffects = b.changeLists(), b.minEffects()
	var err error
	if p.history, err = b.histories(); err != nil {
		return nil, err
	}
	if p.documents, err = b.documents(); err != nil {
		return nil, err
	}
	b.doc.Tables = overviewTables{
		All: b.allCells(), Heat: b.heatTable(), Curves: b.curveTable(), Findings: b.findingTable(),
		Machines: b.machineTables(), Stacks: b.stackTables(p.phases), Changes: b.changeTables(),
	}
	p.calibrated = b.calibrations()
	p.trust = b.trustRows()
	if o.Paths != nil {
		p.paths = pathMaps(o.Paths)
	}
	for i, s := range sets {
		p.handoffs += replays.Handoffs(analyze.HandoffsOf(s), b.first[i], b.look)
	}
	p.traces = b.allTraces()
	return p, nil
}

// Incomparable returns why a set could not be compared with the one before it, or nil.
func (p *Page) Incomparable() error {
	for _, d := range p.doc.Diffs {
		if d.err != nil {
			return d.err
		}
	}
	return nil
}

// builder makes a document.
type builder struct {
	Options
	sets      []*set.Set
	found     []calibration.Found
	doc       *document
	cells     []*set.Cell   // of all sets, as numbered
	shown     []*set.Cell   // the cells with the windows that are shown
	choices   []state.Shown // of each set, what is shown
	views     []*set.Set    // with the windows that are shown
	names     []string      // of the sets
	first     []int         // number of the first cell of each set
	varying   []string
	naming    map[string][]string // transport to the options that are axes of its cells
	labels    set.Labels
	chunks    [][]byte
	overviews []cellpage.Overview // of each cell
}

// chunkSize is the number of cells whose details are compressed together. Opening a cell's page
// decompresses that many.
const chunkSize = 16

// replays draws the cells that replay a trace.
func (b *builder) replays() []replays.Chart {
	cells := replays.Cells{Overviews: b.overviews, Link: b.link, Round: rounded,
		Load: func(cell int) string {
			return cmp.Or(b.doc.Cells.Load[cell], b.cells[cell].Config["replay"])
		}}
	if b.Objective != nil {
		cells.Limit = b.Objective.ResponseLimit()
	}
	return cells.Charts()
}

// details reads the results of all cells and compresses their details, as many chunks at a time as
// there are processors, to save memory.
func (b *builder) details(ctx context.Context) error {
	n := len(b.cells)
	b.overviews, b.chunks = make([]cellpage.Overview, n), make([][]byte, (n+chunkSize-1)/chunkSize)
	var metrics []result.Definition
	for i := range b.doc.Metrics {
		metrics = append(metrics, b.doc.Metrics[i].Definition)
	}
	err := parallel.Each(len(b.chunks), func(at int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var pages []*cellpage.Page
		for cell := at * chunkSize; cell < min(n, (at+1)*chunkSize); cell++ {
			c := &b.doc.Cells
			at := c.Set[cell]
			d := b.Live.Read(b.sets[at], b.cells[cell], b.choices[at])
			var predictions []analyze.Prediction
			if a := d.Analysis; a != nil {
				var err error
				predictions, err = a.Model.Predictions(b.views[at], b.shown[cell], b.WhatIf)
				if err != nil {
					return err
				}
			}
			pages = append(pages, cellpage.NewPage(&cellpage.Cell{
				Cell: b.cells[cell], Number: cell, Look: b.look(cell), Last: cell == n-1,
				Label: c.Names[cell], SeriesName: b.doc.Series[c.Series[cell]].Name,
				Shown: b.shown[cell], Windows: c.Windows[cell], States: c.States[cell],
				Counts:      b.choices[at].Counts(b.cells[cell]),
				Environment: c.Environment[cell], Metrics: metrics, Predictions: predictions,
			}, &d))
			b.overviews[cell] = d.Overview
		}
		var err error
		b.chunks[at], err = pack(cellpage.NewChunk(pages))
		return err
	})
	return err
}

// calibrationsOf returns the last calibration of each machine of the sets.
func (b *builder) calibrationsOf(sets ...*set.Set) []calibration.Found {
	if b.Calibrations == nil {
		return nil
	}
	return b.Calibrations(sets...)
}

// number numbers the cells, those of the newest set first.
func (b *builder) number() {
	lists := make([][]set.Cell, len(b.sets))
	b.first = make([]int, len(b.sets))
	for i, s := range slices.Backward(b.sets) {
		b.first[i] = len(b.cells)
		for c := range s.Cells {
			b.cells = append(b.cells, &s.Cells[c])
		}
		lists[i] = s.Cells
	}
	sources := make([]string, len(b.sets))
	for i, s := range b.sets {
		sources[i] = s.Source
	}
	b.names = set.ShortNames(sources)
	b.varying = set.Varying(lists...)
	b.naming = naming(b.cells, b.varying)
	b.labels = set.LabelsOf(lists...)
}

// naming returns for each transport the options that vary, without own options of which it has only
// one value: it is another transport's option of that name that varies.
func naming(cells []*set.Cell, varying []string) map[string][]string {
	of := map[string][]set.Cell{}
	for _, c := range cells {
		of[c.Transport()] = append(of[c.Transport()], *c)
	}
	names := map[string][]string{}
	for transport, list := range of {
		within := set.Varying(list)
		names[transport] = slices.DeleteFunc(slices.Clone(varying), func(name string) bool {
			return strings.HasPrefix(name, ownPrefix) && !slices.Contains(within, name)
		})
	}
	return names
}

// ownPrefix begins the names of a transport's own options.
const ownPrefix = "options."

// describe sets the title and the list of sets.
func (b *builder) describe() {
	var (
		machines, versions []string
		from, to           time.Time
	)
	add := func(list *[]string, text string) {
		if text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	b.doc.Sets = make([]setInfo, len(b.sets))
	for i, s := range slices.Backward(b.sets) {
		for _, tool := range s.Tools() {
			add(&versions, tool.Version)
		}
		for c := range s.Cells {
			cell := &s.Cells[c]
			if cell.Status == set.Published {
				add(&machines, "published figures")
			} else if m := format.MachineOf(s.Machine(cell).Identity); m != "" {
				add(&machines, m)
			}
			if at := cell.StartedAt; !at.IsZero() {
				from = earliest(from, at)
				if at.After(to) {
					to = at
				}
			}
		}
		b.doc.Sets[i] = setInfo{b.names[i]}
	}
	b.doc.Machine = cmp.Or(strings.Join(machines, "; "), "an unknown machine")
	b.doc.Version = strings.Join(versions, ", ")
	b.doc.Date = day(from)
	if day(to) != day(from) {
		b.doc.Date += " to " + day(to)
	}
	if b.Objective != nil {
		b.doc.Objective = b.Objective.Text
	}
	b.doc.Title = title(b.doc)
}

func title(d *document) string {
	parts := []string{d.Machine}
	if d.Version != "" {
		parts = append(parts, "version "+d.Version)
	}
	if d.Date != "" {
		parts = append(parts, d.Date)
	}
	return strings.Join(parts, ", ")
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}
