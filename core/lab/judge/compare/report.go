package compare

import (
	"fmt"
	"strings"
	"time"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Verdict is the outcome of a comparison.
type Verdict string

// The verdicts. Better and Worse changes are significantly larger than the floor. The interval of
// a Same one lies within the margin of [Options.Same] on both sides. All others are Ambiguous; more
// repeats would decide them, unless they lie between that margin and a larger floor. A pair is
// Incomparable if one side must not be used, or their loads differ.
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
	// OldSide and NewSide describe what was measured on each side.
	OldSide Side `json:"old_side"`
	NewSide Side `json:"new_side"`
	Basis
	// Transports are the changes that the loads of a transport have in common, without the movement
	// of the machine; they and Changes have half of alpha each. It is empty without a control.
	Transports []Change `json:"transports,omitempty"`
	Changes    []Change `json:"changes"`
	Means      []Mean   `json:"means"`
	OnlyOld    []Single `json:"only_old,omitempty"`
	OnlyNew    []Single `json:"only_new,omitempty"`
	// Broken lists the thresholds that failed, and Thresholds counts the tests of relative ones.
	Broken     []Breach       `json:"broken,omitempty"`
	Thresholds ThresholdTests `json:"thresholds,omitzero"`
	// Seen describes which changes the tests could have found: those of relative thresholds if
	// there are any, else those of the changes.
	Seen Seen `json:"seen,omitzero"`
	// Bridge has the options of the command that measures both versions in turns, if the caller
	// knows their plugins, else [Bridge]; it is empty if they were, or the machines differ.
	Bridge string `json:"bridge,omitempty"`
	// Together says that the sets cannot tell a change of what all transports share from one of the
	// machine: most moved together, and the runtime or the tool differs. It is empty otherwise.
	Together string `json:"together,omitempty"`
	// Warnings are the failed checks of all cells of both sets, compared or not.
	Warnings []set.GroupedWarning `json:"warnings,omitempty"`

	detectable []detectable // of the tests that Seen describes
	share      float64      // of alpha that the tests of Changes have
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
	// Floor is the minimum effect, as a share; without a control, [Options.Drift] counts if it is
	// more.
	Floor float64 `json:"floor"`
	// Change is new over old minus 1 within the states of the machine, without the movement of the
	// machine if there is a Control; absent if Incomparable. Low and High are its interval at the
	// level that Holm's adjustment tested it at (without a test, at that of the changes that were
	// not rejected), absent if there are too few repeats. Old and New are over all repeats, so
	// their ratio may differ from Change, and so may OfMedians.
	Change *float64 `json:"change,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	// Control is what was taken from the change of the movement of the machine. Without one,
	// Uncontrolled says why; it is empty if both sides were measured in turns.
	Control      *Control `json:"control,omitempty"`
	Uncontrolled string   `json:"uncontrolled,omitempty"`
	// OfMedians is new over old minus 1 of the medians that tables show: those of the windows in
	// the state of the machine in which both sides have most, or else of all repeats.
	OfMedians *float64 `json:"change_of_medians,omitempty"`
	// Detectable is the smallest change for the worse that the test would have called if the values
	// had scattered as they did, as a share above 0. It is absent without a test, and if no change
	// could have been significant.
	Detectable *float64 `json:"detectable,omitempty"`
	// States has the medians by state, if there are several.
	States []StateChange `json:"states,omitempty"`
	// OneStart is set if a side has several repeats of a process start. The interval then
	// lacks the spread between process starts, and there is no test.
	OneStart bool `json:"one_launch,omitempty"`
	// Scheduled is set if the metric is that of the schedule on both sides, so that there is no
	// test.
	Scheduled bool `json:"scheduled,omitempty"`
	// P is the two-sided p-value of the stratified rank test against the floor: of a change that is
	// no larger in either direction. PHolm is that adjusted for all tests.
	P       *float64 `json:"p,omitempty"`
	PHolm   *float64 `json:"p_holm,omitempty"`
	Verdict Verdict  `json:"verdict"`
	// TooLittle is set if there are too few repeats for a verdict. StatesApart is set instead if
	// there are enough, but too few windows in the same states of the machine.
	TooLittle   bool `json:"too_little,omitempty"`
	StatesApart bool `json:"states_apart,omitempty"`
	// BelowClock is set if there is no verdict because the change is smaller than a step of the
	// clock.
	BelowClock bool   `json:"below_clock,omitempty"`
	Note       string `json:"note,omitempty"`
	// Accepted is set if somebody has accepted that the change is Worse.
	Accepted *Acceptance `json:"accepted,omitempty"`

	withheld string  // why what the machine did between the sets allows no verdict
	step     float64 // of the clock, in ns, if the metric is read from it; else 0
	drift    float64 // [Options.Drift], if there is no control
	// floorOfMore is Floor with [Report.MoreRepeats].
	floorOfMore float64
	observations
}

// minChange returns the smallest change that counts: without a control, at least what the machine
// is known to drift by.
func (c *Change) minChange() float64 { return max(c.Floor, c.drift) }

// Acceptance says who has accepted a change for the worse, and why.
type Acceptance struct {
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// RuntimeDifference describes two versions of the runtime, the measured loop, which plugins link.
type RuntimeDifference struct {
	Old string `json:"old"` // digests
	New string `json:"new"`
	// OldHarness and NewHarness are what the harness cost, in ns per operation: the medians over
	// the cells. They are absent if unknown.
	OldHarness *float64 `json:"old_harness_ns,omitempty"`
	NewHarness *float64 `json:"new_harness_ns,omitempty"`
	// OldClientOnly is set if OldHarness is the cost of clients, and NewHarness that of daemons,
	// too. Schema 1.x had only the first.
	OldClientOnly bool `json:"old_client_only,omitempty"`
}

// String describes the difference in one line.
func (d *RuntimeDifference) String() string {
	cost := func(ns *float64) string {
		if ns == nil {
			return "an unknown time"
		}
		return fmt.Sprintf("%.3g ns", *ns)
	}
	text := fmt.Sprintf("the runtime differs (%.12s and %.12s): benchmark overhead is %s an "+
		"operation in old and %s in new",
		d.Old, d.New, cost(d.OldHarness), cost(d.NewHarness))
	if d.OldClientOnly {
		text += ", which counts daemons, too"
	}
	return text
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
	const limit = 40
	switch {
	case value == "":
		return "none"
	case len(value) > limit:
		return value[:limit] + "..."
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

// MeaningError reports that two sets do not share the meaning of the metrics to compare.
type MeaningError struct {
	Metrics   []string
	Threshold string // that is for one of them; empty if no metric is left
}

func (e *MeaningError) Error() string {
	text := fmt.Sprintf("the meaning of %s changed between schema 1.x and 2.0",
		strings.Join(e.Metrics, ", "))
	if e.Threshold != "" {
		return fmt.Sprintf("%s; remove the threshold %s", text, e.Threshold)
	}
	return text + "; use --metric to compare others"
}

// UnmatchedError reports that two sets have no configuration in common.
type UnmatchedError struct {
	Old, New int
	// Options lists the options in which the most similar cells differ.
	Options []string
}

func (e *UnmatchedError) Error() string {
	text := fmt.Sprintf("none of the %d cells has the configuration of any of the other %d",
		e.Old, e.New)
	if len(e.Options) > 0 {
		text += fmt.Sprintf("; they differ in %s; use --ignore to leave options out",
			strings.Join(e.Options, ", "))
	}
	return text
}

// Rows returns what was compared: the changes of transports over all loads, and those of cells.
func (r *Report) Rows() (rows []*Change) {
	for _, list := range [][]Change{r.Transports, r.Changes} {
		for i := range list {
			rows = append(rows, &list[i])
		}
	}
	return rows
}

// CountTransports returns how many changes of transports over all loads have the verdict v.
func (r *Report) CountTransports(v Verdict) int {
	return count(r.Transports, func(c *Change) bool { return c.Verdict == v })
}

// Count returns how many changes of cells have the verdict v.
func (r *Report) Count(v Verdict) int {
	return count(r.Changes, func(c *Change) bool { return c.Verdict == v })
}

// Accepted returns how many changes for the worse somebody has accepted.
func (r *Report) Accepted() int {
	is := func(c *Change) bool { return c.Accepted != nil }
	return count(r.Transports, is) + count(r.Changes, is)
}

// TooLittle returns how many changes have too few repeats for a verdict.
func (r *Report) TooLittle() int {
	return count(r.Changes, func(c *Change) bool { return c.TooLittle })
}

// StatesApart returns how many changes have too few windows in the same states of the machine for a
// verdict.
func (r *Report) StatesApart() int {
	return count(r.Changes, func(c *Change) bool { return c.StatesApart })
}

func count(changes []Change, is func(*Change) bool) (n int) {
	for i := range changes {
		if is(&changes[i]) {
			n++
		}
	}
	return n
}

func tested(c *Change) bool { return c.PHolm != nil }
