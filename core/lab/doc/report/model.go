package report

import (
	"hash/fnv"
	"io"
	"slices"

	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/doc/report/replays"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// document has the data of the page's script, except the details of cells. Cells are numbered over
// all sets, and stored in columns, which is short.
type document struct {
	Title        string            `json:"title"`
	Machine      string            `json:"-"`
	Version      string            `json:"-"` // of the commands that measured
	Date         string            `json:"-"`
	Live         bool              `json:"live,omitempty"`
	Objective    string            `json:"objective,omitempty"`
	Sets         []setInfo         `json:"sets"`
	Environments []set.Environment `json:"-"`
	// Series are the transports with their providers; each has a colour.
	Series []series `json:"series"`
	// Axes are the options that vary.
	Axes  []axis `json:"axes"`
	Cells cells  `json:"cells"`
	// Metrics are the summaries of all cells, in the order in which they are shown, and Shown those
	// that the script shows.
	Metrics []metricColumn `json:"-"`
	Shown   []shownMetric  `json:"metrics"`
	Curves  []curve        `json:"curves"`
	// Scalings are the charts of what depends on an option.
	Scalings []scaling `json:"scalings"`
	// Replays are the charts over the time of a trace.
	Replays []replays.Chart `json:"replays"`
	// Notes list the loads without a curve, and why.
	Notes []string `json:"notes,omitempty"`
	// Rankings answer which transport is best for which load, by set and metric. Unranked has the
	// sets without an answer, and why.
	Rankings []ranking      `json:"rankings"`
	Unranked []string       `json:"unranked,omitempty"`
	Diffs    []diff         `json:"diffs"`
	Tables   overviewTables `json:"tables"`
	// ChunkSize is the number of cells whose details are compressed together.
	ChunkSize int `json:"chunk_size"`
	// Grid has the shares at which spectra are read, and Ticks are those of their axis.
	Grid  []cellpage.Tick `json:"grid"`
	Ticks []cellpage.Tick `json:"ticks"`
}

// NewestFirst returns the sets from the newest to the oldest.
func (d *document) NewestFirst() []setInfo {
	sets := slices.Clone(d.Sets)
	slices.Reverse(sets)
	return sets
}

// setInfo is one of the report's sets.
type setInfo struct {
	Name string `json:"name"`
}

type series struct {
	Transport string `json:"transport"`
	Provider  string `json:"-"`
	Name      string `json:"name"` // as String
	// Look is the colour, which a transport has in every report. Mark is the shape of its points:
	// the same number, unless the report has several providers of the transport.
	Look int `json:"look"`
	Mark int `json:"mark"`
}

// looks is the number of colours, and of shapes.
const looks = 8

// lookOf returns the colour of a transport, which depends on its name alone. With
// this salt, no two transports of this repository have the same; one from elsewhere may share its
// colour with them.
func lookOf(transport string) int {
	const salt = "261"
	h := fnv.New32a()
	_, _ = io.WriteString(h, salt+transport)
	return int(h.Sum32()>>16) % looks
}

func (s series) String() string {
	if s.Provider == "" {
		return s.Transport
	}
	return s.Transport + " (" + s.Provider + ")"
}

// axis is an option that varies, with its values in order.
type axis struct {
	Name   string   `json:"name"`
	Own    bool     `json:"own,omitempty"` // a transport's own option
	Values []string `json:"values"`
	Shown  []string `json:"shown"` // the values, formatted
}

// cells has a column for each property, with one entry for each cell.
type cells struct {
	Set    []int    `json:"set"`
	Series []int    `json:"series"`
	Label  []string `json:"-"`
	// Names are the labels, with the set if there are several.
	Names []string `json:"label"`
	Load  []string `json:"load"` // the label without the transport and its own options
	Own   []string `json:"own"`  // the transport's own options that vary
	// Axes has for each axis the index of each cell's value, or -1.
	Axes        [][]int `json:"axes"`
	Environment []int   `json:"-"`
	// States says what each closed loop did in each state of the machine, if the sets saw several.
	States []string `json:"states"`
	// Windows names the windows that a cell's metrics are of, as [state.Shown.Windows], and
	// Counted counts the repeats of its throughput.
	Windows []string `json:"-"`
	Counted []string `json:"counted"`
	// Limit is how far a cell is from the floor of the medium, by the ratio that its load allows,
	// and Floors are both ratios in words.
	Limit  []string `json:"limit"`
	Floors []string `json:"floors"`
	// Repeats has the samples of each metric that charts draw, and RepeatStates the state of the
	// machine in each, if the sets saw several.
	Repeats      map[string][][]float64 `json:"repeats"`
	RepeatStates [][]string             `json:"repeat_states"`
	Status       []string               `json:"status"`
	Reason       []string               `json:"reason"`
	// Worst is the highest severity of a failed check, and Warnings the number of warnings.
	Worst    []string `json:"worst"`
	Warnings []int    `json:"warnings"`
}

// metricColumn is one metric of all cells; nil for cells without it.
type metricColumn struct {
	result.Definition
	Values []*result.Metric
}

// shownMetric has one metric of all cells for the script. Texts are empty and numbers null for
// cells without it.
type shownMetric struct {
	Name     string   `json:"name"`
	Unit     string   `json:"unit"`
	Help     string   `json:"help"`
	Text     []string `json:"text"`
	Interval []string `json:"interval"`
	// Share and Level compare a cell with the best of its column in the heat map: in percent, and
	// as a colour or -1. A metric without them is not in the heat maps.
	Share []string `json:"share,omitempty"`
	Level []int    `json:"level,omitempty"`
	// Median is rounded to four digits, by which the script draws and sorts. Low and High are its
	// interval if charts draw the metric.
	Median []*float64 `json:"median"`
	Low    []*float64 `json:"low,omitempty"`
	High   []*float64 `json:"high,omitempty"`
}

// curve is one configuration with several loads.
type curve struct {
	Series int     `json:"series"`
	Set    int     `json:"set"`
	Label  string  `json:"-"`
	Rest   string  `json:"rest"` // the label without the transport, with the set if there are several
	Load   string  `json:"load"` // without what the curve varies
	Open   bool    `json:"open"`
	Metric string  `json:"-"`
	Points []point `json:"points"`
	Knee   int     `json:"knee"` // the cell, or -1
	// Peak is the cell for the first part if the reader hides none, or -1.
	Peak int `json:"-"`
}

type point struct {
	Cell      int    `json:"cell"`
	Meets     string `json:"-"`
	AfterMiss bool   `json:"-"` // as in [analyze.Point]
	Past      bool   `json:"past,omitempty"`
	Unusable  string `json:"unusable,omitempty"`
	// Row shows the point in the first part; it is empty if it must not stand there.
	Row string `json:"row,omitempty"`
}

// diff is the comparison of two of the report's sets.
type diff struct {
	Old   int    `json:"old"`
	New   int    `json:"new"`
	Sides string `json:"sides"` // names of both
	// Machine is the processor that the compared cells were measured on, if the sets have several.
	Machine string `json:"-"`
	// Refused is what was not compared, and why.
	Refused string          `json:"refused,omitempty"`
	err     error           // as Refused
	Report  *compare.Report `json:"-"`
	// Cells has the number of the new cell of each change, or -1.
	Cells []int `json:"-"`
	// Changes are the rows of the report, which the script counts.
	Changes []diffChange `json:"changes,omitempty"`
}

type diffChange struct {
	Metric  string          `json:"metric"`
	Verdict compare.Verdict `json:"verdict"`
	// Over is set if the change is that of a transport over all its loads.
	Over  bool  `json:"over,omitempty"`
	Cells []int `json:"cells"` // the new cells; -1 for one that is not known
}
