package compare

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/transport"
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
}

var thresholdSyntax = regexp.MustCompile(`^(?:(.*):)?\s*([A-Za-z0-9_-]+)\s*([<>])\s*([-+]?[0-9.eE+-]+)\s*(%?)$`)

// ParseThreshold parses a threshold such as "throughput<-3%", "shm: latency_p99>+10%" or
// "transport=ucxam,in_flight=1: floor_ratio>8". With a percent sign it limits the change from old
// to new, without one the new median.
func ParseThreshold(text string) (Threshold, error) {
	text = strings.TrimSpace(text)
	parts := thresholdSyntax.FindStringSubmatch(text)
	if parts == nil {
		return Threshold{}, fmt.Errorf("%q is not a threshold such as \"throughput<-3%%\" or \"transport=shm: latency_p99>+10%%\"", text)
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
		t.Limit /= 100
	}
	if err := set.CheckPattern(t.Pattern); err != nil {
		return Threshold{}, fmt.Errorf("%q: the pattern of cells: %w", text, err)
	}
	return t, CheckMetric(t.Metric)
}

// CheckMetric returns an error if there is no metric of that name.
func CheckMetric(name string) error {
	var names []string
	for _, d := range result.Definitions {
		if d.Name == name {
			return nil
		}
		names = append(names, d.Name)
	}
	return fmt.Errorf("unknown metric %q%s", name, transport.SuggestionFor(name, names))
}

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

// breaches returns the thresholds that changes break. A relative threshold breaks only if the
// change is significant, so noise breaks none; an absolute one breaks if the new median is beyond
// it.
func breaches(changes []Change, thresholds []Threshold, alpha float64) []Breach {
	var list []Breach
	for _, t := range thresholds {
		for i := range changes {
			c := &changes[i]
			if c.Metric != t.Metric || c.Verdict == Incomparable || !set.Match(t.Pattern, c.Config) {
				continue
			}
			value := c.New.Median
			if t.Relative {
				if value = *c.Change; c.withheld || c.PHolm == nil || *c.PHolm >= alpha {
					continue
				}
			}
			if t.Above && value > t.Limit || !t.Above && value < t.Limit {
				list = append(list, Breach{t.text, c.Cell, c.Metric, value, t.Relative})
			}
		}
	}
	return list
}
