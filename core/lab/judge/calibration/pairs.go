package calibration

import (
	"fmt"
	"math"
	"strings"
	"time"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Pairs is what comparisons of equal sets showed, each with each other (package trial). The sets
// are of the shape that users measure, and not in the calibration.
type Pairs struct {
	LastAt time.Time `json:"last_at"` // the start of the last set, in UTC
	// Revision is that of the program that measured all the sets; absent if it is unknown.
	Revision string `json:"revision,omitempty"`
	Repeats  int    `json:"repeats"` // the fewest of a cell
	// ApartS is the time in seconds between the sets of a pair, the median.
	ApartS float64 `json:"apart_s"`
	// Limit is the smallest minimum effect, as a share, with which at most alpha of the pairs have
	// a verdict.
	Limit float64 `json:"limit"`
	// Injected is the share by which the operations of a transport take longer.
	Injected float64 `json:"injected"`
	PairRates
	// QuietPairs are the rates over the pairs of quiet sets, if those were known.
	QuietPairs *PairRates `json:"quiet_pairs,omitempty"`
}

// PairRates are the rates of verdicts over all pairs of some sets.
type PairRates struct {
	Sets int `json:"sets"` // that were compared, each with each
	// Moved is how far the machine moved between the sets of a pair, as a share: the median in the
	// metric in which it moved most.
	Moved float64 `json:"moved"`
	// False is the share of the pairs with a verdict, with the default minimum effect.
	False Estimate `json:"false"`
	// FalseOnTransports is that of the pairs with a verdict on a transport over all its loads.
	FalseOnTransports Estimate `json:"false_on_transports,omitzero"`
	// FalseOnCells is that of the pairs with a verdict on a single cell.
	FalseOnCells Estimate `json:"false_on_cells,omitzero"`
	// Withheld is the share of the changes of cells that cannot have a verdict, because the machine
	// moved too far or was disturbed.
	Withheld Estimate `json:"withheld,omitzero"`
	// Found is the share of the comparisons with a slower transport in which that is worse.
	Found Estimate `json:"found"`
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

func (d *Document) pairsSummary() []string {
	p := d.Pairs
	if p == nil || p.FalseOnCells.Low == nil { // of a diff before 0.10, which had other rates
		return nil
	}
	revision := ""
	if p.Revision != "" {
		revision = fmt.Sprintf(" of revision %.8s", p.Revision)
	}
	all := fmt.Sprintf("each two of %d equal sets%s, %s apart (median), with a control and a "+
		"minimum effect of %s (diff): %s", p.Sets, revision,
		format.Count(int(math.Round(p.ApartS/60)), "minute"),
		format.Share(compare.Defaults().Floor), &p.PairRates)
	if p.False.Value > d.Alpha {
		all += fmt.Sprintf("; with one of %s, which diff uses, at most %s have a verdict",
			format.Share(p.Limit), format.Share(d.Alpha))
	}
	lines, rates, of := []string{all}, &p.PairRates, "of these sets"
	if q := p.QuietPairs; q != nil {
		rates, of = q, "of the quiet sets"
		lines = append(lines, fmt.Sprintf("the %d quiet ones of these sets: %s", q.Sets, q))
	}
	return append(lines, fmt.Sprintf("one transport slower by %s: found in %s of the pairs %s "+
		"(%s)", format.Share(p.Injected), format.Share(rates.Found.Value), of,
		rates.Found.Interval()))
}

// String says how often verdicts were false, and how far the machine moved.
func (r *PairRates) String() string {
	return fmt.Sprintf("a transport differs in %s of the pairs (%s), a cell in %s (%s); the "+
		"machine moved by %s (median, in the metric that moved most), and %s of the changes of "+
		"cells have no verdict", format.Share(r.FalseOnTransports.Value),
		r.FalseOnTransports.Interval(), format.Share(r.FalseOnCells.Value),
		r.FalseOnCells.Interval(), format.Share(r.Moved), format.Share(r.Withheld.Value))
}
