package report

import (
	"slices"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// heatMap shows the throughput of series by payload, or by load if the payload does not vary,
// relative to the best of each column. Its cells do not differ in anything else.
type heatMap struct {
	Title   string
	Columns []heatColumn
	Rows    []heatRow
}

// heatColumn is a column's name as words, between which it may wrap.
type heatColumn []string

type heatRow struct {
	Label  string
	Series int
	Cells  []heatCell
}

type heatCell struct {
	Cell        int
	Label       string
	X, W, Mid   float64 // percent
	Level       int     // 0 worst to 6 best; -1 without a figure
	Share, Text string
}

// heatPosition is the map of a cell, and the cell's row and column in it.
type heatPosition struct{ title, row, column string }

// heatMaps returns one map for each load.
func (b *builder) heatMaps() []heatMap {
	positions, byPayload := make([]heatPosition, len(b.cells)), b.byPayload()
	order, inMap := []string{}, map[string][]int{}
	for i := range b.cells {
		positions[i] = b.heatPosition(i, byPayload)
		title := positions[i].title
		if inMap[title] == nil {
			order = append(order, title)
		}
		inMap[title] = append(inMap[title], i)
	}
	var maps []heatMap
	for _, title := range order {
		maps = append(maps, b.heatMap(title, inMap[title], positions))
	}
	return maps
}

// payload is the option of the columns.
const payload = "value_size"

// heatPosition returns the position of a cell. A transport's own options are part of the row's
// name. The column is the payload, and the rest of the load is the map's title. If the payload does
// not vary between cells of a profile, the load is the column.
func (b *builder) heatPosition(cell int, byPayload bool) heatPosition {
	c := b.cells[cell]
	p := heatPosition{row: b.doc.Series[b.doc.Cells.Series[cell]].String()}
	for _, name := range b.varying {
		own, isOwn := strings.CutPrefix(name, ownPrefix)
		if value, has := b.named(c, name); isOwn && has {
			p.row += " " + own + "=" + set.Value(name, value)
		}
	}
	if byPayload {
		p.column, p.title = set.Value(payload, c.Config[payload]), b.load(c, payload)
	} else {
		p.column = b.load(c)
	}
	if len(b.sets) > 1 {
		p.title = strings.TrimSpace(b.doc.Sets[b.doc.Cells.Set[cell]].Name + "  " + p.title)
	}
	return p
}

// load names what a cell measures, without the transport, its own options, and the options in drop.
func (b *builder) load(c *set.Cell, drop ...string) string {
	for _, name := range b.varying {
		if strings.HasPrefix(name, ownPrefix) {
			drop = append(drop, name)
		}
	}
	return b.labels.Without(drop...).Load(c.Config)
}

// byPayload reports whether cells of one profile differ in their payload.
func (b *builder) byPayload() bool {
	sizes := map[string]string{}
	for _, c := range b.cells {
		profile, size := c.Config["profile"], c.Config[payload]
		if known, seen := sizes[profile]; seen && known != size {
			return true
		}
		sizes[profile] = size
	}
	return false
}

func (b *builder) heatMap(title string, cells []int, positions []heatPosition) heatMap {
	var columns, rows []string
	at := map[heatPosition]int{}
	for _, i := range cells {
		p := positions[i]
		if !slices.Contains(columns, p.column) {
			columns = append(columns, p.column)
		}
		if !slices.Contains(rows, p.row) {
			rows = append(rows, p.row)
		}
		at[p] = i
	}
	b.sortColumns(columns, cells, positions)
	m := heatMap{Title: title}
	width := 100 / float64(len(columns))
	best := make([]float64, len(columns))
	for i, column := range columns {
		m.Columns = append(m.Columns, columnHead(column))
		for _, row := range rows {
			if cell, found := at[heatPosition{title, row, column}]; found {
				if v, has := b.metric(cell, result.Throughput); has {
					best[i] = max(best[i], v.Median)
				}
			}
		}
	}
	for _, row := range rows {
		r := heatRow{Label: row}
		for i, column := range columns {
			cell, found := at[heatPosition{title, row, column}]
			if !found {
				continue
			}
			r.Series = b.doc.Cells.Series[cell]
			h := heatCell{Cell: cell, Label: b.doc.Cells.Label[cell], X: width * float64(i),
				W: width, Mid: width * (float64(i) + 0.5), Level: -1}
			if v, has := b.metric(cell, result.Throughput); has {
				share := shareOf(v.Median, best[i], result.Higher)
				h.Level, h.Share, h.Text = level(share), percentOf(share), format.Value(v)
			} else {
				h.Share, h.Text = "-", b.doc.Cells.Status[cell]
			}
			r.Cells = append(r.Cells, h)
		}
		m.Rows = append(m.Rows, r)
	}
	return m
}

// columnHead lets a name wrap between its options.
func columnHead(name string) heatColumn { return strings.Fields(name) }

// heatAcross names what the columns of the maps are.
func (b *builder) heatAcross() string {
	if b.byPayload() {
		return "payload"
	}
	return "load"
}

// sortColumns sorts columns by payload.
func (b *builder) sortColumns(columns []string, cells []int, positions []heatPosition) {
	value := map[string]string{}
	for _, i := range cells {
		value[positions[i].column] = b.cells[i].Config[payload]
	}
	slices.SortStableFunc(columns, func(x, y string) int {
		return set.CompareValues(value[x], value[y])
	})
}

// levels has the smallest share of each colour.
var levels = []float64{0, 0.1, 0.25, 0.45, 0.65, 0.85, 0.97}

func level(share float64) int {
	at := 0
	for i, from := range levels {
		if share >= from {
			at = i
		}
	}
	return at
}

func percentOf(share float64) string { return format.Digits(100*share) + "%" }
