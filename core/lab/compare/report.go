package compare

import (
	"fmt"
	"strings"

	"transportbench/core/lab/result"
)

// Verdict is the outcome of a comparison.
type Verdict string

// The verdicts. Better and Worse changes are significant and larger than the floor. The interval of
// a Same one lies within the floor on both sides. All others are Ambiguous; more repeats would
// decide them. A pair is Incomparable if one side must not be used.
const (
	Better       Verdict = "BETTER"
	Worse        Verdict = "WORSE"
	Same         Verdict = "SAME"
	Ambiguous    Verdict = "AMBIGUOUS"
	Incomparable Verdict = "INCOMPARABLE"
)

// Report is the comparison of two sets.
type Report struct {
	Kind string `json:"kind"` // "diff"
	Old  string `json:"old"`
	New  string `json:"new"`
	// Alpha is the significance level over all tests together, and Floor the smallest change that
	// counts, as a share.
	Alpha float64 `json:"alpha"`
	Floor float64 `json:"floor"`
	// Tests is how many tests the p-values were adjusted for.
	Tests int `json:"tests"`
	// Across lists the differences of identity that were allowed.
	Across []Difference `json:"across,omitempty"`
	// Notes list what else may explain a change.
	Notes   []string `json:"notes,omitempty"`
	Changes []Change `json:"changes"`
	Means   []Mean   `json:"means"`
	OnlyOld []Single `json:"only_old,omitempty"`
	OnlyNew []Single `json:"only_new,omitempty"`
	// Broken lists the thresholds that failed.
	Broken []Breach `json:"broken,omitempty"`
}

// Change is one metric of one cell.
type Change struct {
	Cell      string            `json:"cell"` // for people
	Transport string            `json:"transport"`
	Config    map[string]string `json:"config"`
	Metric    string            `json:"metric"`
	Unit      string            `json:"unit"`
	Better    result.Better     `json:"better"`
	Old       *result.Metric    `json:"old,omitempty"`
	New       *result.Metric    `json:"new,omitempty"`
	// Change is new over old minus 1, absent if Incomparable. Low and High are its 95% interval,
	// absent if there are too few repeats.
	Change *float64 `json:"change,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	// P is the p-value of the Mann-Whitney test, and PHolm that adjusted for all tests.
	P       *float64 `json:"p,omitempty"`
	PHolm   *float64 `json:"p_holm,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// TooLittle is set if there are too few repeats for a verdict.
	TooLittle bool   `json:"too_little,omitempty"`
	Note      string `json:"note,omitempty"`
}

// Mean is the geometric mean of a metric's change over a transport's cells.
type Mean struct {
	Transport string        `json:"transport"`
	Metric    string        `json:"metric"`
	Better    result.Better `json:"better"`
	Cells     int           `json:"cells"`
	Change    float64       `json:"change"`
}

// Single is a cell without a counterpart.
type Single struct {
	Cell   string `json:"cell"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Difference is a key of the identity that differs between two sets.
type Difference struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

func (d Difference) String() string {
	return fmt.Sprintf("%s (%s and %s)", d.Key, shown(d.Old), shown(d.New))
}

func shown(value string) string {
	const most = 40
	switch {
	case value == "":
		return "none"
	case len(value) > most:
		return value[:most] + "..."
	}
	return value
}

// IdentityError reports that two sets were measured under different circumstances.
type IdentityError struct{ Differences []Difference }

func (e *IdentityError) Error() string {
	var texts, keys []string
	for _, d := range e.Differences {
		texts = append(texts, d.String())
		keys = append(keys, d.Key)
	}
	return fmt.Sprintf("the results differ in %s; to compare them anyway, use --across %s",
		strings.Join(texts, ", "), strings.Join(keys, ","))
}

// UnmatchedError reports that two sets have no configuration in common.
type UnmatchedError struct {
	Old, New int
	// Options lists the options in which the most similar cells differ.
	Options []string
}

func (e *UnmatchedError) Error() string {
	text := fmt.Sprintf("none of the %d cells has the configuration of any of the other %d", e.Old, e.New)
	if len(e.Options) > 0 {
		text += fmt.Sprintf("; they differ in %s; use --ignore to leave options out", strings.Join(e.Options, ", "))
	}
	return text
}

// Count returns how many changes have the verdict v.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].Verdict == v {
			n++
		}
	}
	return n
}

// TooLittle returns how many changes have too few repeats for a verdict.
func (r *Report) TooLittle() int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].TooLittle {
			n++
		}
	}
	return n
}
