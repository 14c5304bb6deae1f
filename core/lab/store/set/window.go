package set

import (
	"slices"
	"time"

	"transportbench/core/lab/store/result"
)

// Window is one measured window of a cell, with what a comparison needs of it besides the metrics.
type Window struct {
	StartedAt time.Time `json:"started_at"`
	// Launch tells the launches apart that measured the cell, from 0.
	Launch int `json:"launch"`
	// DistanceBefore and DistanceAfter are the core distances on both sides of the window; 0 if
	// not measured.
	DistanceBefore float64 `json:"bounce_before_ns,omitempty"`
	DistanceAfter  float64 `json:"bounce_after_ns,omitempty"`
	// Mixed marks a window during which the machine changed its state.
	Mixed bool `json:"mixed,omitempty"`
	// Taken is the share of a disturbed window for which others had the processor of a polling
	// thread ([result.Result.Taken]); 0 if the window is not disturbed.
	Taken float64 `json:"taken,omitempty"`
	// NoFloor marks a window without a floor in its state, and so without ratios.
	NoFloor bool `json:"no_floor,omitempty"`
}

// invalid reports whether a number that must not be negative is.
func (w Window) invalid() bool {
	return !(w.DistanceBefore >= 0 && w.DistanceAfter >= 0 && w.Taken >= 0) || w.Launch < 0
}

// Disturbed reports whether others had the processor of a polling thread for more than
// [result.DisturbedShare] of the window.
func (w Window) Disturbed() bool { return w.Taken > 0 }

func windowsOf(r *result.Result) []Window {
	var list []Window
	for i := range r.Repeats {
		repeat := &r.Repeats[i]
		has := func(name string) bool { _, has := repeat.Samples[name]; return has }
		w := Window{
			StartedAt: repeat.StartedAt, Launch: repeat.Launch,
			DistanceBefore: repeat.Before.CoreDistance, DistanceAfter: repeat.After.CoreDistance,
			Mixed:   repeat.Mixed,
			NoFloor: !slices.ContainsFunc(ofFloors, has),
		}
		if taken := r.Taken(i); taken > result.DisturbedShare {
			w.Taken = taken
		}
		list = append(list, w)
	}
	return list
}

// ofFloors are the metrics that windows without a floor lack.
var ofFloors = []string{
	result.Floor, result.FloorRatio, result.Library, result.LibraryRatio, result.RateFloor,
	result.OpTimeRatio, result.Bare, result.BareRatio, result.BareRate, result.BareTimeRatio,
	result.Floor + result.WithinMachine, result.FloorRatio + result.WithinMachine,
	result.Floor + result.BetweenMachines, result.FloorRatio + result.BetweenMachines,
}

// WindowsOf returns the window of each sample of a metric, or nil if they are unknown.
func (c *Cell) WindowsOf(metric string) []Window {
	samples := len(c.Samples[metric])
	if len(c.Windows) == samples {
		return c.Windows
	}
	var windows []Window
	for i, w := range c.Windows {
		if !c.lacks(metric, i) {
			windows = append(windows, w)
		}
	}
	if len(windows) != samples {
		return nil
	}
	return windows
}

// lacks reports whether a window cannot have a sample of a metric: of a floor that was not
// measured, or of a launch that was not its own.
func (c *Cell) lacks(metric string, window int) bool {
	if result.OfSetup(metric) {
		return window > 0 && c.Windows[window].Launch == c.Windows[window-1].Launch
	}
	return c.Windows[window].NoFloor && slices.Contains(ofFloors, metric)
}

// Sample returns the sample of a metric in a repeat, from 0.
func (c *Cell) Sample(metric string, repeat int) (value float64, has bool) {
	values, at := c.Samples[metric], repeat
	if len(values) != len(c.Windows) {
		lacking, earlier := 0, 0
		for i := range c.Windows {
			if i == repeat {
				earlier = lacking
			}
			if c.lacks(metric, i) {
				lacking++
			}
		}
		if len(values)+lacking == len(c.Windows) {
			if c.lacks(metric, repeat) {
				return 0, false
			}
			at -= earlier
		}
	}
	if at >= len(values) {
		return 0, false
	}
	return values[at], true
}

func clockStep(r *result.Result) float64 {
	step := 0.0
	for i := range r.Repeats {
		step = max(step, r.Repeats[i].ClockStep())
	}
	return step
}

// Launches returns how many launches measured the cell; 0 if that is unknown.
func (c *Cell) Launches() int {
	launches := map[int]bool{}
	for _, w := range c.Windows {
		launches[w.Launch] = true
	}
	return len(launches)
}

// Repeats returns the number of samples of the metric that has most.
func (c *Cell) Repeats() (n int) {
	for _, values := range c.Samples {
		n = max(n, len(values))
	}
	return n
}

// mergeWindows adds the windows of another cell, with launches of their own. If only one of the two
// knows its windows, none are left: they would not belong to the samples.
func (c *Cell) mergeWindows(more Cell) {
	if len(c.Windows) == 0 || len(more.Windows) == 0 {
		c.Windows = nil
		return
	}
	first := len(c.Windows)
	c.Windows = append(c.Windows, more.Windows...)
	type launch struct {
		more   bool
		number int
	}
	numbers := map[launch]int{}
	for i := range c.Windows {
		l := launch{i >= first, c.Windows[i].Launch}
		if _, known := numbers[l]; !known {
			numbers[l] = len(numbers)
		}
		c.Windows[i].Launch = numbers[l]
	}
}
