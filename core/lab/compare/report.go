package compare

import (
	"fmt"
	"strings"

	"transportbench/core/lab/result"
)

// Verdict is what a comparison comes to.
type Verdict string

// The verdicts. Better and Worse are significant and larger than the floor.
// Same is an interval that lies within the floor on both sides. Ambiguous is
// neither: more repeats would tell. Incomparable is a pair of which one side
// must not be used.
const (
	Better       Verdict = "BETTER"
	Worse        Verdict = "WORSE"
	Same         Verdict = "SAME"
	Ambiguous    Verdict = "AMBIGUOUS"
	Incomparable Verdict = "INCOMPARABLE"
)

// Report is a comparison of two sets.
type Report struct {
	Kind string `json:"kind"` // "diff"
	Old  string `json:"old"`
	New  string `json:"new"`
	// Alpha is the level of the verdicts over all tests together, and Floor the
	// least change that counts, as a share.
	Alpha float64 `json:"alpha"`
	Floor float64 `json:"floor"`
	// Tests is how many tests the p-values were adjusted for.
	Tests int `json:"tests"`
	// Across are the differences of identity that were allowed.
	Across []Difference `json:"across,omitempty"`
	// Notes are what else may explain a change.
	Notes   []string `json:"notes,omitempty"`
	Changes []Change `json:"changes"`
	Means   []Mean   `json:"means"`
	OnlyOld []Single `json:"only_old,omitempty"`
	OnlyNew []Single `json:"only_new,omitempty"`
	// Broken are the thresholds that failed.
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
	// Change is new over old less 1, absent for Incomparable; Low and High are
	// its 95% interval, absent where the repeats are too few.
	Change *float64 `json:"change,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	// P is the Mann-Whitney test's, and PHolm adjusted for all tests.
	P       *float64 `json:"p,omitempty"`
	PHolm   *float64 `json:"p_holm,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// TooLittle says that so few repeats could not have led to a verdict.
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

// IdentityError is the refusal to compare what was measured under different
// circumstances.
type IdentityError struct{ Differences []Difference }

func (e *IdentityError) Error() string {
	var texts, keys []string
	for _, d := range e.Differences {
		texts = append(texts, d.String())
		keys = append(keys, d.Key)
	}
	return fmt.Sprintf("the results differ in %s; to compare them nevertheless, use --across %s",
		strings.Join(texts, ", "), strings.Join(keys, ","))
}

// UnmatchedError is the refusal to compare sets that have nothing in common.
type UnmatchedError struct {
	Old, New int
	// Options differ between the sets so that no cell has a counterpart.
	Options []string
}

func (e *UnmatchedError) Error() string {
	text := fmt.Sprintf("none of %d cells has a counterpart of the same configuration among %d", e.Old, e.New)
	if len(e.Options) > 0 {
		text += fmt.Sprintf("; they differ in %s, which --ignore leaves out", strings.Join(e.Options, ", "))
	}
	return text
}

// Count is how many changes have a verdict.
func (r *Report) Count(v Verdict) int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].Verdict == v {
			n++
		}
	}
	return n
}

// TooLittle is how many changes have too few repeats for a verdict.
func (r *Report) TooLittle() int {
	n := 0
	for i := range r.Changes {
		if r.Changes[i].TooLittle {
			n++
		}
	}
	return n
}
