package report

import (
	"slices"
	"strings"

	"transportbench/core/base/grouped"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// heatMap shows series by payload, or by load if the payload does not vary. Its cells do not differ
// in anything else.
type heatMap struct {
	Title   string
	Columns [][]string // names as words, between which they may wrap
	Rows    []heatRow
}

// heatRow has a cell for each column, whose number is -1 if there is none.
type heatRow struct {
	Label string
	Look  int
	Cells []heatCell
}

// heatCell has the throughput of a cell.
type heatCell struct {
	Cell        int
	Level       int // 0 worst to 6 best; -1 without a figure
	Share, Text string
}

// heatPosition is the map of a cell, and the cell's row and column in it.
type heatPosition struct{ title, row, column string }

// shareOfLevel has the smallest share of each colour.
var shareOfLevel = []float64{0, 0.1, 0.25, 0.45, 0.65, 0.85, 0.97}

// level returns the colour of a share of the best figure, from 0 for the worst to 6.
func level(share float64) int {
	at := 0
	for i, from := range shareOfLevel {
		if share >= from {
			at = i
		}
	}
	return at
}

// percent returns a share as text.
func percent(share float64) string { return format.Digits(100*share) + "%" }

// heatMaps returns one map for each load.
func (b *builder) heatMaps() []heatMap {
	positions, byPayload := make([]heatPosition, len(b.cells)), b.byPayload()
	for i := range b.cells {
		positions[i] = b.heatPosition(i, byPayload)
	}
	title := func(cell int) string { return positions[cell].title }
	var maps []heatMap
	for _, cells := range grouped.By(b.numbers(), title) {
		maps = append(maps, b.heatMap(title(cells[0]), cells, positions))
	}
	b.fill(maps)
	return maps
}

// fill sets the throughput of the maps' cells.
func (b *builder) fill(maps []heatMap) {
	shares, levels := make([]string, len(b.cells)), slices.Repeat([]int{-1}, len(b.cells))
	if m := b.column(result.Throughput); m != nil {
		shares, levels = sharesOf(maps, m)
	}
	for _, m := range maps {
		for _, row := range m.Rows {
			for i := range row.Cells {
				c := &row.Cells[i]
				switch {
				case c.Cell < 0:
				case levels[c.Cell] < 0:
					c.Level, c.Share, c.Text = -1, "-", b.doc.Cells.Status[c.Cell]
				default:
					rate := b.summary(c.Cell, result.Throughput)
					c.Level, c.Share, c.Text = levels[c.Cell], shares[c.Cell], format.Value(*rate)
				}
			}
		}
	}
}

// sharesOf compares a metric of each cell with the best of its column: in percent, and as a colour
// or -1.
func sharesOf(maps []heatMap, m *metricColumn) (shares []string, levels []int) {
	shares, levels = make([]string, len(m.Values)), slices.Repeat([]int{-1}, len(m.Values))
	for _, h := range maps {
		for column := range h.Columns {
			best := 0.0
			for _, row := range h.Rows {
				v := m.in(row.Cells[column])
				if v > 0 && (best == 0 || (v < best) == (m.Better == result.Lower)) {
					best = v
				}
			}
			for _, row := range h.Rows {
				c := row.Cells[column]
				if c.Cell < 0 || m.Values[c.Cell] == nil {
					continue
				}
				share := shareOf(m.in(c), best, m.Better)
				shares[c.Cell], levels[c.Cell] = percent(share), level(share)
			}
		}
	}
	return shares, levels
}

// in returns the median of a cell of the map, or 0 if there is none.
func (m *metricColumn) in(c heatCell) float64 {
	if c.Cell < 0 || m.Values[c.Cell] == nil {
		return 0
	}
	return m.Values[c.Cell].Median
}

// payload is the option of the columns.
const payload = "value_size"

// heatPosition returns the position of a cell. A transport's own options are part of the row's
// name. The column is the payload, and the rest of the load is the map's title. If the payload does
// not vary between cells of a profile, the load is the column.
func (b *builder) heatPosition(cell int, byPayload bool) heatPosition {
	c := b.cells[cell]
	series := b.doc.Series[b.doc.Cells.Series[cell]].Name
	p := heatPosition{row: strings.TrimSpace(series + " " + b.doc.Cells.Own[cell])}
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
	for _, column := range columns {
		m.Columns = append(m.Columns, strings.Fields(column))
	}
	for _, row := range rows {
		r := heatRow{Label: row}
		for _, column := range columns {
			cell, found := at[heatPosition{title, row, column}]
			if !found {
				cell = -1
			} else {
				r.Look = b.look(cell)
			}
			r.Cells = append(r.Cells, heatCell{Cell: cell})
		}
		m.Rows = append(m.Rows, r)
	}
	return m
}

// heatAcross names what the columns of the maps are.
func (b *builder) heatAcross() string {
	if b.byPayload() {
		return "payload"
	}
	return "load"
}

func (b *builder) sortColumns(columns []string, cells []int, positions []heatPosition) {
	value := map[string]string{}
	for _, i := range cells {
		value[positions[i].column] = b.cells[i].Config[payload]
	}
	slices.SortStableFunc(columns, func(x, y string) int {
		return set.CompareValues(value[x], value[y])
	})
}
