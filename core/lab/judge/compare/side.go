package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Side describes one side of a comparison.
type Side struct {
	// Versions and Revisions are those of the tool, each once, and absent if unknown.
	Versions  []string `json:"versions,omitempty"`
	Revisions []string `json:"revisions,omitempty"`
	// Plugin is the transport's program, if there is only one.
	Plugin *set.Plugin `json:"plugin,omitempty"`
	// From and To are when the first and the last cell were begun, absent if unknown.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Cells counts the compared cells, and the others are the fewest and the most repeats of one.
	Cells      int `json:"cells"`
	MinRepeats int `json:"least_repeats"`
	MaxRepeats int `json:"most_repeats"`
}

// newSide describes the compared cells of a set.
func newSide(s *set.Set, cells []*set.Cell) Side {
	side := Side{Cells: len(cells)}
	for _, tool := range s.Tools() {
		side.Versions, side.Revisions = appendNew(side.Versions, tool.Version),
			appendNew(side.Revisions, tool.Revision)
	}
	programs := map[string]*set.Plugin{}
	for i, c := range cells {
		if c.Plugin.SHA256 != "" {
			programs[c.Plugin.Name+c.Plugin.SHA256] = &c.Plugin
		}
		if at := c.StartedAt; !at.IsZero() {
			if side.From.IsZero() || at.Before(side.From) {
				side.From = at
			}
			if at.After(side.To) {
				side.To = at
			}
		}
		n := c.Repeats()
		if i == 0 || n < side.MinRepeats {
			side.MinRepeats = n
		}
		side.MaxRepeats = max(side.MaxRepeats, n)
	}
	if len(programs) == 1 {
		for _, p := range programs {
			side.Plugin = &set.Plugin{Name: p.Name, Version: p.Version, SHA256: p.SHA256,
				RuntimeDigest: p.RuntimeDigest, Revision: p.Revision}
		}
	}
	return side
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// String describes the side in one line.
func (s Side) String() string {
	version := "measured by an unknown version"
	if len(s.Versions) > 0 {
		version = "measured by transportbench " + strings.Join(s.Versions, ", ")
	}
	parts := []string{version + revisions(s.Revisions)}
	if p := s.Plugin; p != nil {
		parts = append(parts, fmt.Sprintf("plugin %s %s%s with SHA-256 %.12s", p.Name,
			cmp.Or(p.Version, "of an unknown version"), revisions(appendNew(nil, p.Revision)),
			p.SHA256))
	}
	if !s.From.IsZero() {
		from, to := s.From.UTC().Format(time.DateOnly), s.To.UTC().Format(time.DateOnly)
		if parts = append(parts, from); from != to {
			parts[len(parts)-1] += " to " + to
		}
	}
	repeats := format.Count(s.MinRepeats, "repeat")
	if s.MinRepeats != s.MaxRepeats {
		repeats = fmt.Sprintf("%d to %d repeats", s.MinRepeats, s.MaxRepeats)
	}
	if s.Cells > 1 {
		repeats += fmt.Sprintf(" of each of %d cells", s.Cells)
	}
	return strings.Join(append(parts, repeats), ", ")
}

func revisions(list []string) string {
	var short []string
	for _, r := range list {
		short = appendNew(short, fmt.Sprintf("%.12s", r))
	}
	if len(short) == 0 {
		return ""
	}
	return " (revision " + strings.Join(short, ", ") + ")"
}

func (m *matched) oldCells() (cells []*set.Cell) {
	for _, p := range m.pairs {
		cells = append(cells, p.old)
	}
	return cells
}

func (m *matched) newCells() (cells []*set.Cell) {
	for _, p := range m.pairs {
		cells = append(cells, p.new)
	}
	return cells
}
