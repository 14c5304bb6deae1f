package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// calibration shows how far comparisons on one machine can be trusted.
type calibrationView struct {
	Machine string
	Known   bool // there is one
	Title   string
	Claims  []string
	Unused  []string // why other calibrations do not count
	Alpha   string
	AlphaX  float64 // percent of the axis
	False   []falseRow
	Loads   []string // the columns of Power
	Power   []powerRow
}

// falseRow is one way to compare.
type falseRow struct {
	Method, Count, Share, Interval string
	X, Low, Width                  float64 // percent of the axis
	Over                           bool    // more than alpha, significantly
}

// powerRow is a known change, with one share for each load and number of repeats.
type powerRow struct {
	Change string
	Found  []foundShare
}

type foundShare struct {
	Text, Interval string // empty if there is none
	Width          float64
}

// calibrations describes the last calibration of each machine.
func (b *builder) calibrations() []calibrationView {
	var list []calibrationView
	for _, f := range b.found {
		c := calibrationView{Machine: cmp.Or(machineOf(set.Environment{Identity: f.Identity}), "an unknown machine"), Unused: f.Unused}
		if d := f.Document; d != nil {
			c.Known = true
			c.Title = fmt.Sprintf("%s, version %s, %s", d.StartedAt.UTC().Format(time.DateOnly), d.Tool.Version, d.Length())
			c.Claims = d.Summary()
			c.falseVerdicts(d)
			c.power(d)
		}
		list = append(list, c)
	}
	return list
}

// falseVerdicts draws the shares on an axis that ends at four times alpha, or at the largest share.
func (c *calibrationView) falseVerdicts(d *calibration.Document) {
	end := 4 * d.Alpha
	for _, v := range d.FalseVerdicts {
		end = max(end, v.Share.Value, valueOf(v.Share.High, 0))
	}
	at := func(share float64) float64 { return 100 * max(0, min(1, share/end)) }
	c.Alpha, c.AlphaX = format.Share(d.Alpha), at(d.Alpha)
	for _, v := range d.FalseVerdicts {
		low, high := at(valueOf(v.Share.Low, v.Share.Value)), at(valueOf(v.Share.High, v.Share.Value))
		c.False = append(c.False, falseRow{
			Method: v.Method, Count: fmt.Sprintf("%d of %d", v.False, v.Comparisons),
			Share: format.Share(v.Share.Value), Interval: v.Share.Interval(),
			X: at(v.Share.Value), Low: low, Width: max(0, high-low), Over: valueOf(v.Share.Low, 0) > d.Alpha,
		})
	}
}

// power arranges the trials by change.
func (c *calibrationView) power(d *calibration.Document) {
	var changes []float64
	for _, p := range d.Power {
		on := "quiet"
		if p.Loaded {
			on = "loaded"
		}
		c.Loads = append(c.Loads, fmt.Sprintf("%s, %d repeats", on, p.Repeats))
		for _, t := range p.Trials {
			if change := wanted(t.Known); !slices.Contains(changes, change) {
				changes = append(changes, change)
			}
		}
	}
	slices.Sort(changes)
	for _, change := range changes {
		row := powerRow{Change: format.Share(change)}
		for _, p := range d.Power {
			var found foundShare
			for _, t := range p.Trials {
				if wanted(t.Known) == change {
					found = foundShare{fmt.Sprintf("%d of %d", t.Found, t.Count), t.Share.Interval(), 100 * max(0, min(1, t.Share.Value))}
				}
			}
			row.Found = append(row.Found, found)
		}
		c.Power = append(c.Power, row)
	}
}

// wanted returns the change that was wanted, in steps of half a percent: the one that was made of it
// differs a little from one experiment to the next.
func wanted(change float64) float64 { return math.Round(200*change) / 200 }

func valueOf(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// leastChanges returns for people where the least changes that count in the comparisons are from.
func (b *builder) leastChanges() string {
	var texts []string
	for _, d := range b.doc.Diffs {
		if d.Report == nil || d.Report.FloorFrom == "" {
			continue
		}
		text := fmt.Sprintf("The least change that counts is %s, %s.", format.Share(d.Report.Floor), d.Report.FloorFrom)
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " ")
}
