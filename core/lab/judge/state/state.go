package state

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/store/result"
)

// Mixed is the state of a window that began in one state and ended in another.
const Mixed = "mixed"

// Unread is the state of a window without readings, in a set that has several states.
const Unread = "unread"

// Undisturbed names the windows that are not disturbed where there are no states to tell apart.
const Undisturbed = "undisturbed"

const disturbed = "disturbed"

// Disturbed returns the state of a disturbed window from the one that it has otherwise.
func Disturbed(name string) string { return strings.TrimSpace(name + " " + disturbed) }

// Plain reports whether windows in a state show the machine as it was: they are neither mixed nor
// unread nor disturbed.
func Plain(name string) bool {
	return name != Mixed && name != Unread && name != disturbed &&
		!strings.HasSuffix(name, " "+disturbed)
}

// States are the states of the machine that core distances show. On a virtual machine the
// processors of a run may be near (one cache) or far (two sockets), and change while a set is
// measured. A state is a mode of the density of the log of the distance.
//
// Two neighbouring modes are two states if the density between them falls below half of the lower
// one, and if each has at least two readings and 1% of all. The density is smoothed with a normal
// kernel whose width makes that so from a factor of [result.MixedRatio], from which a window counts
// as mixed. The bound between two states is where the density is least. The result depends on the
// readings alone: not on their order, nor on any metric.
type States struct {
	bounds []float64 // between states, in nanoseconds, ascending
	found  bool      // there are readings
}

// The constants of [Find].
const (
	valleyDepth   = 0.5  // of the lower mode
	fewestShare   = 0.01 // of all readings
	fewestCount   = 2    // readings
	stepsPerWidth = 8    // grid points of the density
	farthest      = 4    // kernel widths, beyond which a reading counts for nothing
)

// kernelWidth is the standard deviation of the kernel, in log distance. Between two equal modes
// that are d widths apart the density is 2 exp(-d*d/8) of theirs.
var kernelWidth = math.Log(result.MixedRatio) / math.Sqrt(8*math.Log(2/valleyDepth))

// Find returns the states that core distances show, in nanoseconds. A distance of 0 was not
// measured and is left out.
func Find(distances []float64) States {
	var readings []float64 // logs
	for _, distance := range distances {
		if distance > 0 {
			readings = append(readings, math.Log(distance))
		}
	}
	if len(readings) == 0 {
		return States{}
	}
	slices.Sort(readings)
	s := States{found: true}
	origin, density := densityOf(readings)
	at := func(i int) float64 { return origin + float64(i)*kernelWidth/stepsPerWidth }
	fewest := max(fewestCount, int(math.Ceil(fewestShare*float64(len(readings)))))
	between := func(low, high float64) int { // readings
		from, _ := slices.BinarySearch(readings, low)
		to, _ := slices.BinarySearch(readings, high)
		return to - from
	}
	// Merge from the shallowest valley until all that are left separate states.
	valleys := valleysOf(density)
	for len(valleys) > 0 {
		worst, shallowest := -1, 0.0
		low := math.Inf(-1)
		for i, v := range valleys {
			high := math.Inf(1)
			if i+1 < len(valleys) {
				high = at(valleys[i+1].bottom)
			}
			depth := density[v.bottom] / min(density[v.left], density[v.right])
			if between(low, at(v.bottom)) < fewest || between(at(v.bottom), high) < fewest {
				depth = 1
			}
			if depth > max(valleyDepth, shallowest) {
				worst, shallowest = i, depth
			}
			low = at(v.bottom)
		}
		if worst < 0 {
			break
		}
		valleys = dropValley(valleys, worst, density)
	}
	for _, v := range valleys {
		s.bounds = append(s.bounds, math.Exp(at(v.bottom)))
	}
	return s
}

// densityOf returns the density of sorted readings on a grid from origin, in steps of
// kernelWidth/stepsPerWidth. It is not normalized.
func densityOf(readings []float64) (origin float64, density []float64) {
	step := kernelWidth / stepsPerWidth
	origin = readings[0] - farthest*kernelWidth
	span := readings[len(readings)-1] - readings[0]
	counts := make([]float64, int(span/step)+2*farthest*stepsPerWidth+2)
	for _, x := range readings {
		counts[int(math.Round((x-origin)/step))]++
	}
	density = make([]float64, len(counts))
	for i, n := range counts {
		if n == 0 {
			continue
		}
		for d := -farthest * stepsPerWidth; d <= farthest*stepsPerWidth; d++ {
			if j := i + d; j >= 0 && j < len(density) {
				z := float64(d) / stepsPerWidth
				density[j] += n * math.Exp(-z*z/2)
			}
		}
	}
	return origin, density
}

// valley is a minimum of a density between two modes, as indexes.
type valley struct{ left, bottom, right int }

// valleysOf returns the valleys between each two neighbouring modes.
func valleysOf(density []float64) []valley {
	var modes []int
	for i := 1; i+1 < len(density); i++ {
		if density[i] > density[i-1] && density[i] >= density[i+1] {
			modes = append(modes, i)
		}
	}
	var list []valley
	for i := 1; i < len(modes); i++ {
		list = append(list, valleyBetween(modes[i-1], modes[i], density))
	}
	return list
}

// valleyBetween returns the valley between two modes. Its bottom is the middle of all least points,
// since the density of distant states is 0 over a range.
func valleyBetween(left, right int, density []float64) valley {
	lowest := slices.Min(density[left : right+1])
	first, last := -1, 0
	for i := left; i <= right; i++ {
		if density[i] == lowest {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	return valley{left, (first + last) / 2, right}
}

// dropValley merges the modes on both sides of a valley. The higher one stays.
func dropValley(valleys []valley, i int, density []float64) []valley {
	mode := valleys[i].left
	if density[valleys[i].right] > density[mode] {
		mode = valleys[i].right
	}
	valleys = slices.Delete(valleys, i, i+1)
	if i > 0 {
		valleys[i-1] = valleyBetween(valleys[i-1].left, mode, density)
	}
	if i < len(valleys) {
		valleys[i] = valleyBetween(mode, valleys[i].right, density)
	}
	return valleys
}

// Count returns the number of states: 0 if there are no readings.
func (s States) Count() int {
	if !s.found {
		return 0
	}
	return len(s.bounds) + 1
}

// Names returns the names of the states, the smallest distance first: near, far, far 2, ... With
// fewer than two states there are none.
func (s States) Names() []string {
	var names []string
	for i := 0; len(s.bounds) > 0 && i <= len(s.bounds); i++ {
		names = append(names, stateName(i))
	}
	return names
}

func stateName(i int) string {
	switch i {
	case 0:
		return "near"
	case 1:
		return "far"
	}
	return fmt.Sprintf("far %d", i)
}

// Of returns the state of a window by the core distances before and after it, of which 0 is
// unknown: a name, [Mixed] or [Unread]. It returns "" if there are fewer than two states.
func (s States) Of(before, after float64) string {
	if len(s.bounds) == 0 {
		return ""
	}
	switch {
	case before <= 0 && after <= 0:
		return Unread
	case before <= 0:
		before = after
	case after <= 0:
		after = before
	}
	i := s.index(before)
	if i != s.index(after) {
		return Mixed
	}
	return stateName(i)
}

func (s States) index(distance float64) int {
	i, _ := slices.BinarySearch(s.bounds, distance)
	return i
}
