package heat

import "transportbench/core/lab/store/format"

// levels has the smallest share of each colour.
var levels = []float64{0, 0.1, 0.25, 0.45, 0.65, 0.85, 0.97}

// Level returns the colour of a share of the best figure, from 0 for the worst to 6.
func Level(share float64) int {
	at := 0
	for i, from := range levels {
		if share >= from {
			at = i
		}
	}
	return at
}

// Percent returns a share as text.
func Percent(share float64) string { return format.Digits(100*share) + "%" }
