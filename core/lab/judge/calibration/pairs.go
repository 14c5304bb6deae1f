package calibration

import (
	"fmt"
	"math"
	"strings"
	"time"

	"transportbench/core/lab/store/format"
)

// Pairs is what comparisons of equal sets showed, each with each other (package trial). The sets
// are of the shape that users measure, and not in the calibration.
type Pairs struct {
	LastAt time.Time `json:"last_at"` // the start of the last set, in UTC
	// Revision is that of the program that measured all the sets; absent if it is unknown.
	Revision string `json:"revision,omitempty"`
	Sets     int    `json:"sets"`    // that were compared, each with each
	Repeats  int    `json:"repeats"` // the fewest of a cell
	// ApartS is the time in seconds between the sets of a pair, and Moved how far the machine moved
	// between them, as a share, in the metric in which it moved most: medians.
	ApartS float64 `json:"apart_s"`
	Moved  float64 `json:"moved"`
	// Limit is the smallest minimum effect, as a share, with which at most alpha of the pairs have
	// a verdict.
	Limit float64 `json:"limit"`
	// False is the share of the pairs with a verdict, with the default minimum effect.
	False Estimate `json:"false"`
	// Found is the share of the comparisons with a transport slower by Injected in which that is
	// worse, over the pairs of Quiet sets, or of all sets if Quiet is 0.
	Injected float64  `json:"injected"`
	Quiet    int      `json:"quiet,omitempty"`
	Found    Estimate `json:"found"`
}

// KeepPairs adds the outcome of comparisons of equal sets of a machine, which must be that of the
// calibration.
func (d *Document) KeepPairs(p *Pairs, identity map[string]string) error {
	other, err := d.otherMachine(identity)
	if err == nil && len(other) > 0 {
		err = fmt.Errorf("the sets are of another machine than the calibration: %s",
			strings.Join(other, ", "))
	}
	if err != nil {
		return err
	}
	d.Pairs = p
	return nil
}

// minEffectBetween returns the minimum effect between sets that were measured at different times,
// and where it is from: share, or how far equal sets of one of the machines differ beyond their
// control, if that is more.
func minEffectBetween(found []Found, share float64, from string) (float64, string) {
	for i := range found {
		d := found[i].Document
		if d == nil || d.Pairs == nil || d.Pairs.Limit <= share {
			continue
		}
		share, from = d.Pairs.Limit, fmt.Sprintf("at most %s of the pairs of %d equal sets differ "+
			"by more (calibration of %s, %s)", format.Share(d.Alpha), d.Pairs.Sets,
			d.StartedAt.UTC().Format(time.DateOnly), found[i].origin())
	}
	return share, from
}

func (d *Document) pairsSummary() string {
	p := d.Pairs
	if p == nil {
		return ""
	}
	of := "pairs"
	if p.Quiet > 0 {
		of = fmt.Sprintf("pairs of %d quiet sets", p.Quiet)
	}
	revision := ""
	if p.Revision != "" {
		revision = fmt.Sprintf(" of revision %.8s", p.Revision)
	}
	text := fmt.Sprintf("diff of each two of %d equal sets%s, %s apart, between which the "+
		"machine moved by %s (medians): %s of the pairs have a false verdict (%s); one transport "+
		"slower by %s is found in %s of the %s (%s)", p.Sets, revision,
		format.Count(int(math.Round(p.ApartS/60)), "minute"), format.Share(p.Moved),
		format.Share(p.False.Value), p.False.Interval(), format.Share(p.Injected),
		format.Share(p.Found.Value), of, p.Found.Interval())
	if p.False.Value > d.Alpha {
		text += fmt.Sprintf("; with a minimum effect of %s, which diff uses, at most %s have one",
			format.Share(p.Limit), format.Share(d.Alpha))
	}
	return text
}
