package analyze

import (
	"fmt"
	"regexp"
	"strings"

	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
)

var objectiveSyntax = regexp.MustCompile(`^([A-Za-z0-9_.-]+)\s*<=?\s*([0-9.]+[a-z]+)$`)

// ParseObjective reads "p99<50us" or "read_p50<30ms". A percentile alone is
// that of the service time, or in an open loop of the response time.
func ParseObjective(text string) (Objective, error) {
	parts := objectiveSyntax.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Objective{}, fmt.Errorf("%q is no objective such as \"p99<50us\" or \"read_p50<30ms\"", text)
	}
	o := Objective{Metric: strings.ReplaceAll(strings.ReplaceAll(parts[1], "-", "_"), ".", ""), Text: strings.TrimSpace(text)}
	known := o.metric(false)
	if err := compare.CheckMetric(known); err != nil {
		return Objective{}, fmt.Errorf("%q: %w", text, err)
	}
	if unit := result.Define(known).Unit; unit != "ns" {
		return Objective{}, fmt.Errorf("%q: %s is no time but in %s", text, known, unit)
	}
	var err error
	if o.Limit, err = positiveTime(parts[2]); err != nil {
		return Objective{}, fmt.Errorf("%q: %w", text, err)
	}
	return o, nil
}

// metric is the one that the objective is about: a bare percentile's depends on
// the loop.
func (o *Objective) metric(open bool) string {
	if strings.Contains(o.Metric, "_") {
		return o.Metric
	}
	if open {
		return "response_" + o.Metric
	}
	return "latency_" + o.Metric
}
