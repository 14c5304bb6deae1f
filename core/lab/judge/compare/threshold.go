package compare

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Threshold is a limit for a metric in the cells that match a pattern.
type Threshold struct {
	// Pattern is for [set.Match]; the empty one matches every cell.
	Pattern string
	Metric  string
	// Above is set if values above the limit fail, and not set if those below it do.
	Above bool
	// Limit is a change as a share if Relative, else a value of the new results in the metric's
	// unit.
	Limit    float64
	Relative bool
	text     string
}

func (t Threshold) String() string { return t.text }

// Breach is a cell beyond a threshold.
type Breach struct {
	Threshold string  `json:"threshold"`
	Cell      string  `json:"cell"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"` // the change as a share, or the median
	Relative  bool    `json:"relative"`
	// PHolm is the one-sided p-value of a relative threshold: of a change that is not beyond the
	// limit, adjusted for all tests of thresholds.
	PHolm *float64 `json:"p_holm,omitempty"`
}

// ThresholdTests counts the tests of relative thresholds.
type ThresholdTests struct {
	Tests int `json:"tests"`
	// TooLittle is how many of them no change could have failed, for lack of repeats or launches,
	// and Needed how many repeats each side needs.
	TooLittle int `json:"too_little"`
	Needed    int `json:"needed"`
	// StatesApart is how many of them no change could have failed although there are enough
	// repeats, because the sides have too few windows in the same states of the machine.
	StatesApart int `json:"states_apart,omitempty"`
	// Moved is how many of them no change could have failed because the machine moved too far
	// between the sets, or no other transports show how far.
	Moved int `json:"moved,omitempty"`
}

var thresholdSyntax = regexp.MustCompile(
	`^(?:(.*):)?\s*([A-Za-z0-9_-]+)\s*([<>])\s*([-+]?[0-9.eE+-]+)\s*(%?)$`)

// ParseThreshold parses a threshold such as "throughput<-3%", "shm: latency_p99>+10%" or
// "transport=ucxam,in_flight=1: floor_ratio>8". With a percent sign it limits the change from old
// to new, without one the new median.
func ParseThreshold(text string) (Threshold, error) {
	text = strings.TrimSpace(text)
	parts := thresholdSyntax.FindStringSubmatch(text)
	if parts == nil {
		return Threshold{}, fmt.Errorf("%q is not a threshold such as \"throughput<-3%%\" or "+
			"\"transport=NAME: latency_p99>+10%%\"", text)
	}
	limit, err := strconv.ParseFloat(parts[4], 64)
	if err != nil || math.IsNaN(limit) || math.IsInf(limit, 0) {
		return Threshold{}, fmt.Errorf("%q: %s is not a number", text, parts[4])
	}
	t := Threshold{
		Pattern: strings.TrimSpace(parts[1]), Metric: strings.ReplaceAll(parts[2], "-", "_"),
		Above: parts[3] == ">", Limit: limit, Relative: parts[5] == "%", text: text,
	}
	if t.Relative {
		if t.Limit /= 100; t.Limit <= -1 {
			return Threshold{}, fmt.Errorf("%q: %s%% is out of range (more than -100%%)", text,
				parts[4])
		}
	}
	if err := set.CheckPattern(t.Pattern); err != nil {
		return Threshold{}, fmt.Errorf("%q: the pattern of cells: %w", text, err)
	}
	return t, CheckMetric(t.Metric)
}

// CheckMetric returns an error if there is no metric of that name.
func CheckMetric(name string) error {
	if result.IsOfClass(name) {
		return nil
	}
	var names []string
	for _, d := range result.Definitions {
		if d.Name == name {
			return nil
		}
		names = append(names, d.Name)
	}
	hint := suggest.For(name, names)
	// a percentile alone
	if slices.Contains(names, "latency_"+name) && slices.Contains(names, "response_"+name) {
		hint = fmt.Sprintf("; did you mean %q or %q?", "latency_"+name, "response_"+name)
	} else if i := slices.IndexFunc(names,
		func(known string) bool { return strings.HasSuffix(known, "_"+name) }); hint == "" &&
		i >= 0 {
		hint = fmt.Sprintf("; did you mean %q?", names[i])
	}
	if hint == "" {
		hint = "; the metrics are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("unknown metric %q%s", name, hint)
}

// MaxThresholds is the size in bytes of the largest file of thresholds.
const MaxThresholds = 1 << 20

// ReadThresholds reads one threshold per line. Text after # is a comment.
func ReadThresholds(r io.Reader) ([]Threshold, error) {
	var list []Threshold
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		t, err := ParseThreshold(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, t)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("the file has no thresholds")
	}
	return list, nil
}

// thresholdTest is the test of one change against one relative threshold.
type thresholdTest struct {
	breach Breach
	change *Change
	excess float64 // of the change beyond the limit, as a share of the old median
	limit  float64
	above  bool
}

// breaches returns the thresholds that changes break. A relative threshold breaks if the change is
// significantly beyond its limit, adjusted for all tests of thresholds; an absolute one breaks if
// the new median is beyond it. detectables are the changes that the tests could have found.
func breaches(changes []Change, o Options) (list []Breach, counts ThresholdTests,
	detectables []detectable) {
	var tests []thresholdTest
	var p []float64
	for _, t := range o.Thresholds {
		for i := range changes {
			c := &changes[i]
			if c.Metric != t.Metric || c.Verdict == Incomparable || t.Relative && c.Scheduled ||
				!set.Match(t.Pattern, c.Config) {
				continue
			}
			switch value := c.New.Median; {
			case t.Relative:
				test := thresholdTest{Breach{Threshold: t.text, Cell: c.Cell, Metric: c.Metric,
					Value: *c.Change, Relative: true}, c, math.Abs(*c.Change - t.Limit),
					t.Limit, t.Above}
				tests = append(tests, test)
				if p = append(p, 1); c.P != nil {
					p[len(p)-1] = c.beyond(1+t.Limit, t.Above)
				}
			case t.Above && value > t.Limit || !t.Above && value < t.Limit:
				list = append(list, Breach{Threshold: t.text, Cell: c.Cell, Metric: c.Metric,
					Value: value})
			}
		}
	}
	adjusted, levels := ranktest.Holm(p, o.Alpha)
	counts.Tests = len(tests)
	for i, test := range tests {
		c := test.change
		// of one-sided tests
		detectables = append(detectables, test.detectable(2*o.Alpha/float64(len(tests))))
		switch {
		case adjusted[i] < o.Alpha && test.excess*c.Old.Median >= c.step:
			test.breach.PHolm = &adjusted[i]
			list = append(list, test.breach)
		case c.withheld != "":
			counts.Moved++
		case c.P != nil && c.blocks.SmallestP()/2 < levels[i]: // another change could have failed
		case !c.OneStart && len(c.States) > 0 && ranktest.SmallestP(c.Old.N, c.New.N)/2 <
			levels[i]:
			counts.StatesApart++
		default:
			counts.TooLittle++
		}
	}
	if counts.TooLittle > 0 {
		counts.Needed = ranktest.RepeatsFor(2*o.Alpha, len(tests)) // of one-sided tests
	}
	return list, counts, detectables
}
