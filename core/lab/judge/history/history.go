package history

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/parallel"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/history/changepoint"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// History is a list of sets in the order of their time.
type History struct {
	Sets []Set `json:"sets"`

	loaded []*set.Set
	states state.Classifier
}

// Set is one set of a history.
type Set struct {
	// Path is where it was read, and Label its path without what all sets have in common.
	Path  string `json:"path"`
	Label string `json:"label"`
	// StartedAt is the start of its first result.
	StartedAt time.Time `json:"started_at"`
	// Version and Revision are those of the command that measured it; empty if its files do not
	// say.
	Version  string `json:"version,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Plugins has the revisions of plugins that have another one, by transport.
	Plugins map[string]string `json:"plugins,omitempty"`
	Blessed []Blessing        `json:"blessed,omitempty"`
}

// RevisionOf returns the revision that a transport was built from, or else that of the command.
func (s *Set) RevisionOf(transport string) string {
	return cmp.Or(s.Plugins[transport], s.Revision)
}

// Load reads the sets in the directories, and in those below them that have an index. A directory
// without any index is one set. Sets that have no measured cells are left out.
func Load(paths []string) (*History, error) {
	var dirs []string
	for _, path := range paths {
		found, err := setsBelow(path)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	sets := make([]*set.Set, len(dirs))
	err := parallel.Each(len(dirs), func(i int) (err error) {
		sets[i], err = consistency.ReadSet(dirs[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	h, err := Of(sets...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
	}
	return h, nil
}

// Of makes a history of sets that are loaded, which it does not change.
func Of(sets ...*set.Set) (*History, error) {
	h := &History{Sets: make([]Set, len(sets)), loaded: make([]*set.Set, len(sets))}
	for i, s := range sets {
		var err error
		if h.Sets[i], h.loaded[i], err = follow(s); err != nil {
			return nil, err
		}
	}
	h.arrange()
	if len(h.Sets) == 0 {
		return nil, ErrNothingMeasured
	}
	paths := make([]string, len(h.Sets))
	for i, s := range h.Sets {
		paths[i] = s.Path
	}
	for i, name := range set.ShortNames(paths) {
		h.Sets[i].Label = name
	}
	h.states = state.NewClassifier(h.loaded...)
	return h, nil
}

// setsBelow returns the directories with an index at path and below it, or path if there is none.
func setsBelow(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil // set.Load explains what is wrong
	}
	var dirs []string
	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != path && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && set.IsIndex(at):
			dirs = append(dirs, filepath.Dir(at))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	if len(dirs) == 0 {
		dirs = []string{path}
	}
	return dirs, nil
}

// follow returns what a history keeps of a set, and does not change the set.
func follow(s *set.Set) (Set, *set.Set, error) {
	entry := Set{Path: printable.Text(s.Source)}
	kept := *s
	kept.Cells = make([]set.Cell, 0, len(s.Cells))
	for _, c := range s.Cells {
		if c.Status != set.Measured || c.StartedAt.IsZero() {
			continue
		}
		if entry.StartedAt.IsZero() || c.StartedAt.Before(entry.StartedAt) {
			entry.StartedAt = c.StartedAt
		}
		if revision := printable.Text(c.Plugin.Revision); revision != "" {
			if entry.Plugins == nil {
				entry.Plugins = map[string]string{}
			}
			entry.Plugins[c.Transport()] = revision
		}
		c.Warnings, c.Results = nil, nil
		kept.Cells = append(kept.Cells, c)
	}
	if tools := kept.Tools(); len(tools) > 0 {
		entry.Version, entry.Revision = tools[0].Version, tools[0].Revision
	}
	var err error
	entry.Blessed, err = readBlessings(s.Source)
	return entry, &kept, err
}

// arrange drops sets without measured cells and sorts the others by their time.
func (h *History) arrange() {
	order := make([]int, 0, len(h.Sets))
	for i, s := range h.loaded {
		if len(s.Cells) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return h.Sets[a].StartedAt.Compare(h.Sets[b].StartedAt)
	})
	sets, loaded := make([]Set, len(order)), make([]*set.Set, len(order))
	for to, from := range order {
		sets[to], loaded[to] = h.Sets[from], h.loaded[from]
	}
	h.Sets, h.loaded = sets, loaded
}

// Series is one metric of one cell on one machine through the sets.
type Series struct {
	// Cell is the short name of the cell's configuration ([set.ID]), Load its label among all
	// cells, and Transport and Machine complete it. Machine is empty if all sets are of one
	// machine. Cell is empty if Transport is [Shared].
	Cell      string        `json:"cell"`
	Load      string        `json:"load"`
	Transport string        `json:"transport"`
	Machine   string        `json:"machine,omitempty"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Better    result.Better `json:"better"`
	// State is the state of the machine whose windows count; empty if all do.
	State  string  `json:"state,omitempty"`
	Points []Point `json:"points"`
	// Controlled is set if the movement of the machine is taken from the series before its changes
	// are found. Points without [Point.Machine] then belong to no level.
	Controlled bool     `json:"controlled,omitempty"`
	Changes    []Change `json:"changes,omitempty"`
	// Paths are the changes of what carried the bytes of the cell.
	Paths []PathChange `json:"path_changes,omitempty"`

	load string // the label of the load without what the transport sets
}

// Point is the median of a metric in one set.
type Point struct {
	Set   int     `json:"set"` // an index into History.Sets
	Value float64 `json:"value"`
	N     int     `json:"n"` // windows
	// Machine is how far the machine had moved from what it was in the newest set, as a share, by
	// the other transports under the same load. It is absent if they are fewer than four.
	Machine *float64 `json:"machine,omitempty"`
}

// Change is a change of the level of a series.
type Change struct {
	// Set is the first one after the change, and Before the last one before it.
	Set    int `json:"set"`
	Before int `json:"before"`
	// Old and New are the medians of the levels, of a controlled series as on the machine of the
	// newest set, and Share is how much the new one is more.
	Old   float64 `json:"old"`
	New   float64 `json:"new"`
	Share float64 `json:"share"`
	// Worse is set if the metric has a direction and the change goes against it.
	Worse   bool      `json:"worse,omitempty"`
	Blessed *Blessing `json:"blessed,omitempty"`
}

// PathChange is a change of what carried the bytes of a cell.
type PathChange struct {
	// Set is the first one after the change, and Before the last one before it that knows its path.
	Set    int      `json:"set"`
	Before int      `json:"before"`
	Old    []string `json:"old"`
	New    []string `json:"new"`
}

// Options say which series to make.
type Options struct {
	Metrics []string
	// Floor is the share by which a level must change at least to count.
	Floor float64
}

// identity tells series apart.
type identity struct{ key, machine string }

// Series returns the series of the metrics that have a point in two sets or more, in the order of
// the cells in the newest sets, and below them those of what the transports under a load share.
// Where the sets show several states of the machine, a series has the
// windows in the state in which all of its cells have most.
func (h *History) Series(o Options) []Series {
	cells := map[identity]map[int]*set.Cell{} // by set
	machines := map[string]bool{}
	var order []identity
	for i := len(h.loaded) - 1; i >= 0; i-- {
		s := h.loaded[i]
		for j := range s.Cells {
			c := &s.Cells[j]
			id := identity{c.Key(), format.MachineOf(s.Machine(c).Identity)}
			machines[id.machine] = true
			if cells[id] == nil {
				cells[id] = map[int]*set.Cell{}
				order = append(order, id)
			}
			if cells[id][i] == nil {
				cells[id][i] = c
			}
		}
	}
	newest := make([]set.Cell, 0, len(order))
	for _, id := range order {
		sets := cells[id]
		newest = append(newest, *sets[slices.Max(slices.Collect(maps.Keys(sets)))])
	}
	labels := set.LabelsOf(newest)
	drop := h.transportOptions()
	loads := labels.Without(drop...)
	var list []Series
	var groups []group // of each of the list
	for i, id := range order {
		for _, metric := range o.Metrics {
			d := result.Define(metric)
			s := Series{
				Cell: set.ID(id.key), Load: labels.Load(newest[i].Config),
				load:      loads.Load(newest[i].Config),
				Transport: newest[i].Transport(),
				Metric:    metric, Unit: d.Unit, Better: d.Better,
			}
			if len(machines) > 1 {
				s.Machine = id.machine
			}
			if h.fill(&s, cells[id], metric); len(s.Points) >= 2 {
				s.Paths = pathChanges(cells[id])
				list = append(list, s)
				groups = append(groups,
					group{set.Key(newest[i].Config, drop...), id.machine, metric})
			}
		}
	}
	list = h.control(list, groups)
	for i := range list {
		h.findChanges(&list[i], o.Floor)
	}
	return list
}

func (h *History) fill(s *Series, cells map[int]*set.Cell, metric string) {
	sets := slices.Sorted(maps.Keys(cells))
	list := make([]*set.Cell, len(sets))
	for i, at := range sets {
		list[i] = cells[at]
	}
	s.State = h.states.Common(list)
	for i, at := range sets {
		c := h.states.Within(list[i], s.State)
		if m, known := c.Metric(metric); known && !math.IsInf(m.Median, 0) &&
			!math.IsNaN(m.Median) {
			s.Points = append(s.Points, Point{Set: at, Value: m.Median, N: m.N})
		}
	}
}

// pathChanges returns the changes of the path of a cell, by set. Sets that do not know it have
// none.
func pathChanges(cells map[int]*set.Cell) (list []PathChange) {
	before := -1
	for _, at := range slices.Sorted(maps.Keys(cells)) {
		path := cells[at].Plugin.Path
		if len(path) == 0 {
			continue
		}
		if before >= 0 && !slices.Equal(cells[before].Plugin.Path, path) {
			list = append(list, PathChange{Set: at, Before: before, Old: cells[before].Plugin.Path,
				New: path})
		}
		before = at
	}
	return list
}

// findChanges finds the changes of a series by at least floor. Levels are compared as ratios, so
// the search is among logarithms, if all values are positive.
func (h *History) findChanges(s *Series, floor float64) {
	points := s.Judged()
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
		if p.Value > 0 {
			values[i] = math.Log(p.Value)
		}
	}
	if slices.ContainsFunc(points, func(p Point) bool { return p.Value <= 0 }) {
		return // a share of 0 has no meaning
	}
	// A level that differs too little from the one before belongs to it.
	found, starts := append(changepoint.Find(values), len(values)), []int{0}
	for i, at := range found[:len(found)-1] {
		old, now := level(points[starts[len(starts)-1]:at]), level(points[at:found[i+1]])
		if math.Abs(now/old-1) >= floor {
			starts = append(starts, at)
		}
	}
	starts = append(starts, len(values))
	for i := 1; i < len(starts)-1; i++ {
		old, now := level(points[starts[i-1]:starts[i]]), level(points[starts[i]:starts[i+1]])
		share := now/old - 1
		c := Change{
			Set: points[starts[i]].Set, Before: points[starts[i]-1].Set, Old: old, New: now,
			Share: share,
			Worse: s.Better == result.Higher && share < 0 || s.Better == result.Lower && share > 0,
		}
		c.Blessed = h.blessing(s, points[starts[i]:starts[i+1]])
		s.Changes = append(s.Changes, c)
	}
}

func level(points []Point) float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	return record.Median(values)
}

// Baseline returns the level since the last change.
func (s *Series) Baseline() float64 {
	points := s.Judged()
	if n := len(s.Changes); n > 0 {
		first := s.Changes[n-1].Set
		points = points[slices.IndexFunc(points, func(p Point) bool { return p.Set == first }):]
	}
	return level(points)
}

// Cell returns the short name and the label of the cell that text names, by either.
func (h *History) Cell(text string) (id, label string, err error) {
	var cells []set.Cell
	for _, s := range h.loaded {
		cells = append(cells, s.Cells...)
	}
	labels := set.LabelsOf(cells)
	var known []string
	for i := range cells {
		id, label = set.ID(cells[i].Key()), labels.Of(cells[i].Config)
		if text == id || text == label {
			return id, label, nil
		}
		known = append(known, label)
	}
	return "", "", fmt.Errorf("there is no cell %q%s", text, suggest.For(text, known))
}

// Unaccepted counts the changes for the worse that nobody has accepted.
func Unaccepted(list []Series) (n int) {
	for _, s := range list {
		for _, c := range s.Changes {
			if c.Worse && c.Blessed == nil {
				n++
			}
		}
	}
	return n
}

var (
	// errNoSet is for a path without a set.
	errNoSet = errors.New("no set of results")
	// ErrNothingMeasured is for sets without measured cells.
	ErrNothingMeasured = errors.New("no set has measured cells")
)
