package calibration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// classOfPath has the class of operations that take a path, as results name it: a calibration knows
// sockets of one host only.
var classOfPath = map[string]string{
	transport.MediumMemory: classMemory, transport.MediumUnix: classSockets,
	transport.MediumTCP + " over lo": classSockets, transport.MediumUDP + " over lo": classSockets,
}

// classOf returns the class of a cell's operations, or "" if it is none or not the only one.
func classOf(c *set.Cell) (class string) {
	for _, line := range c.Plugin.Path {
		path, _, _ := strings.Cut(line, ",")
		of := classOfPath[path]
		if of == "" || class != "" && class != of {
			return ""
		}
		class = of
	}
	return class
}

// MinEffects returns the function for [compare.Options.MinEffect]: the minimum effect of so many
// repeats a side, of a cell's class of operations.
func MinEffects(found []Found, repeats int,
	standard float64) func(c *set.Cell, times int) (share float64, from string) {
	return func(c *set.Cell, times int) (float64, string) {
		return minEffectOf(found, classOf(c), times*repeats, standard)
	}
}

// minEffectOf returns the minimum effect of comparisons of so many repeats a side: the largest of
// those of the machines, or standard if that is larger. from names the calibration of each machine,
// the one that decided first, or says that there is none.
func minEffectOf(found []Found, class string, repeats int, standard float64) (share float64,
	from string) {
	share = standard
	effects := make([]MinEffect, len(found))
	decided := -1
	for i, f := range found {
		if f.Document == nil {
			continue
		}
		effects[i], _ = f.Document.MinEffect(class, repeats)
		if effects[i].Known > share {
			share, decided = effects[i].Known, i
		}
	}
	texts := []string{"the default"}
	if len(found) == 0 {
		texts = append(texts, "no full calibration of this machine")
	}
	for i, f := range found {
		machine, of := "this machine", ""
		if len(found) > 1 {
			machine = f.machine()
			of = " of " + machine
		}
		if effects[i].Count == 0 {
			text := "no full calibration of " + machine
			if f.Document != nil && !f.Document.Quick {
				text += " says what is found: that of " + f.Document.StartedAt.UTC().Format(
					time.DateOnly) + " slowed down padded operations only"
			}
			texts = append(texts, text)
			continue
		}
		source := fmt.Sprintf(" (calibration%s of %s, %s)", of,
			f.Document.StartedAt.UTC().Format(time.DateOnly), f.origin())
		if i == decided {
			texts[0] = effects[i].basis() + source
		} else {
			texts = append(texts, "seen: "+effects[i].String()+source)
		}
	}
	return share, strings.Join(texts, "; ")
}

// Along compares the values of an option as [compare.Along] does. Leads must exceed the
// minimum effect, which is from the calibrations of the set's machines.
func Along(found []Found, s *set.Set, axis string, o compare.Options) (*compare.Ranking, error) {
	o.MinEffect = MinEffects(found, Repeats(nil, s), o.Floor)
	return compare.Along(s, axis, o)
}

// Diff compares two sets as [compare.Diff] does. Changes must exceed the minimum effect, which is
// from the calibrations of the sets' machines.
func Diff(found []Found, old, new *set.Set, o compare.Options) (*compare.Report, error) {
	repeats := Repeats(compare.OptionNames(o.Ignore, old, new), old, new)
	within := MinEffects(found, repeats, o.Floor)
	o.MinEffect = func(c *set.Cell, times int) (float64, string) {
		share, from := within(c, times)
		return minEffectBetween(found, share, from)
	}
	o.Drift, o.DriftFrom = driftOf(found)
	report, err := compare.Diff(old, new, o)
	if err != nil {
		return nil, err
	}
	for i := range found {
		d := found[i].Document
		if d == nil || !report.Controlled() {
			continue
		}
		if lines := d.pairsSummary(); len(lines) > 0 {
			report.Notes = append(report.Notes, "on this machine, "+strings.Join(lines, "; "))
		}
	}
	return report, nil
}

// driftOf returns the largest change that the machines were seen to drift by between sets that were
// measured at different times, and where that is from; from says that there is no such calibration
// if the share is 0.
func driftOf(found []Found) (share float64, from string) {
	from = "no full calibration of this machine says how far it drifts"
	for i := range found {
		f := &found[i]
		if f.Document == nil || f.Document.Quick || f.Document.Drift == nil ||
			f.Document.Drift.Limit < share {
			continue
		}
		drift := f.Document.Drift
		share, from = drift.Limit, fmt.Sprintf("equal sets that were measured %s apart differ by "+
			"that much (calibration of %s, %s)", drift.Apart(),
			f.Document.StartedAt.UTC().Format(time.DateOnly), f.origin())
	}
	return share, from
}

// DriftUnknown says that a full calibration has no drift: an older build made it, or it has too few
// comparisons.
const DriftUnknown = "which does not say how far sets that were measured at different times " +
	"differ: measure in turns, or run calibrate again"

func (f *Found) machine() string {
	return fmt.Sprintf("%s, kernel %s", cmp.Or(f.Identity["cpu"], "an unknown processor"),
		cmp.Or(f.Identity["kernel"], "unknown"))
}

// origin names the file of the calibration, and what it was made with if that is not the present
// tool.
func (f *Found) origin() string {
	if f.Stale == "" {
		return f.Path
	}
	return f.Path + ", " + f.Stale
}

// MinEffect is the smallest change that comparisons were seen to find on a machine.
type MinEffect struct {
	// Trials are those of the change, which is Known, with Repeats repeats a side.
	Trials
	Class   string // of operations
	Repeats int
	// Seen is set if enough of the trials found the change. If not, it is the largest that was
	// tried.
	Seen bool
	// Fewer is set if no trial has as few repeats as was asked for.
	Fewer bool
}

// String returns the change and what is known of it.
func (m MinEffect) String() string { return format.Share(m.Known) + ", " + m.basis() }

// basis says in how many trials, and of what, the change was found.
func (m MinEffect) basis() string {
	repeats := format.Count(m.Repeats, "repeat")
	text := fmt.Sprintf("found in %d of %s of %s with %s", m.Found,
		format.Count(m.Count, "trial"), m.Class, repeats)
	if !m.Seen {
		text = fmt.Sprintf(
			"the largest change tried, and not even that was found in %s of the trials of %s with "+
				"%s", format.Share(foundShare), m.Class, repeats)
	}
	if m.Fewer {
		text += ", not measured below " + repeats
	}
	return text
}

// MinEffect returns the smallest known change that comparisons of so many repeats a side find on
// this machine: in at least 90% of the trials on quiet processors with at most that many repeats,
// as every larger change. If none was, it is the largest change of the trials: the machine may not
// even show that one. With fewer repeats than all trials have, those with the fewest count: fewer
// repeats do not show more. It is of a class of operations, or of the one that shows least if there
// are no trials of that class. ok is false for a quick calibration, and without trials of
// operations that were not padded.
func (d *Document) MinEffect(class string, repeats int) (largest MinEffect, ok bool) {
	if d.Quick {
		return MinEffect{}, false
	}
	classes := map[string][]Power{}
	for _, p := range d.Measured() {
		if !p.Loaded && len(p.Trials) > 0 && p.Trials[0].Count >= fewestTrials {
			classes[p.Class] = append(classes[p.Class], p)
		}
	}
	if of := classes[class]; of != nil {
		return smallestOf(of, repeats), true
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if m := smallestOf(classes[class], repeats); !ok || m.Known > largest.Known {
			largest, ok = m, true
		}
	}
	return largest, ok
}

// smallestOf is [Document.MinEffect] for one class of operations.
func smallestOf(quiet []Power, repeats int) (smallest MinEffect) {
	slices.SortFunc(quiet, func(a, b Power) int { return cmp.Compare(a.Repeats, b.Repeats) })
	for i, p := range quiet {
		if i > 0 && p.Repeats > repeats {
			break
		}
		m := MinEffect{Class: p.Class, Repeats: p.Repeats, Fewer: p.Repeats > repeats}
		if m.Trials, m.Seen = smallestFound(p.Trials); !m.Seen {
			m.Trials = p.Trials[len(p.Trials)-1]
		}
		// Of equal changes, the trials with the most repeats are the most like the comparison.
		if i == 0 || m.Seen && (!smallest.Seen || m.Known <= smallest.Known) ||
			!m.Seen && !smallest.Seen {
			smallest = m
		}
	}
	return smallest
}

// Repeats returns the smallest number of repeats of the measured cells whose configuration all sets
// have, or of all measured cells if they have none in common. The options in ignore do not count.
func Repeats(ignore []string, sets ...*set.Set) int {
	// the number of the last set that has the configuration, if all before have it
	in := map[string]int{}
	for number, s := range sets {
		for i := range s.Cells {
			if key := s.Cells[i].Key(ignore...); in[key] == number {
				in[key] = number + 1
			}
		}
	}
	common, any := 0, 0
	for _, s := range sets {
		for i := range s.Cells {
			c := &s.Cells[i]
			n := c.Repeats()
			if c.Status != set.Measured || n == 0 {
				continue
			}
			if any == 0 || n < any {
				any = n
			}
			if in[c.Key(ignore...)] == len(sets) && (common == 0 || n < common) {
				common = n
			}
		}
	}
	if common > 0 {
		return common
	}
	return any
}
