package analyze

import (
	"fmt"
	"regexp"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
)

// CapacityOptions configure [CapacityOf].
type CapacityOptions struct {
	Objective *Objective // nil for none
	// Rate is the metric that counts as throughput. If empty, it is the throughput, or the
	// iterations or tokens of a set that has no throughput.
	Rate string
	// Target is the rate that servers are counted for; 0 for none.
	Target float64
	// Headroom is the share of a closed loop's throughput that its servers keep free. If it is nil,
	// servers are counted for open loops only: the clients of a closed loop send less when the
	// server is slow, and users do not.
	Headroom *float64
}

// Capacity has the load curves of a set, and what they allow.
type Capacity struct {
	// Rate is the metric that counts as throughput.
	Rate      string     `json:"rate"`
	Objective *Objective `json:"objective,omitempty"`
	// KneeMethod describes how knees were found.
	KneeMethod string  `json:"knee_method"`
	Target     float64 `json:"target,omitempty"`
	// Headroom is the assumed share of a closed loop's throughput that stays free.
	Headroom *float64 `json:"headroom,omitempty"`
	Curves   []Curve  `json:"curves"`
	// Notes list what was left out, and why.
	Notes []string `json:"notes,omitempty"`
}

// Objective is an upper limit for a time, such as p99<50us.
type Objective struct {
	Metric string  `json:"metric"` // p99, read_p50, ...
	Limit  float64 `json:"limit_ns"`
	Text   string  `json:"text"` // as given
}

var objectiveSyntax = regexp.MustCompile(`^([A-Za-z0-9_.-]+)\s*<=?\s*([0-9.]+[a-z]+)$`)

// ParseObjective parses an objective such as "p99<50us" or "read_p50<30ms". A percentile without a
// name is that of the service time, or of an open loop's response time.
func ParseObjective(text string) (Objective, error) {
	parts := objectiveSyntax.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Objective{},
			fmt.Errorf("%q is not an objective such as \"p99<50us\" or \"read_p50<30ms\"", text)
	}
	o := Objective{Metric: strings.ReplaceAll(strings.ReplaceAll(parts[1], "-", "_"), ".", ""),
		Text: strings.TrimSpace(text)}
	known := o.metric(false)
	if err := compare.CheckMetric(known); err != nil {
		return Objective{}, fmt.Errorf("%q: %w", text, err)
	}
	if unit := result.Define(known).Unit; unit != "ns" {
		return Objective{}, fmt.Errorf("%q: %s is not a time but in %s", text, known, unit)
	}
	var err error
	if o.Limit, err = positiveTime(parts[2]); err != nil {
		return Objective{}, fmt.Errorf("%q: %w", text, err)
	}
	return o, nil
}

// metric returns the metric of the objective. That of a bare percentile depends on the loop.
func (o *Objective) metric(open bool) string {
	if strings.Contains(o.Metric, "_") {
		return o.Metric
	}
	if open {
		return "response_" + o.Metric
	}
	return "latency_" + o.Metric
}

// ResponseLimit returns the limit of the response times of open loops, or 0 if the objective is for
// other times.
func (o *Objective) ResponseLimit() float64 {
	if !strings.HasPrefix(o.metric(true), "response_") {
		return 0
	}
	return o.Limit
}

// Curve is one configuration with several loads, in order of load. Closed and open loops are never
// on the same curve.
type Curve struct {
	// the transport and the options that differ between curves
	Label     string            `json:"label"`
	Transport string            `json:"transport"`
	Config    map[string]string `json:"config"` // common to all points
	Open      bool              `json:"open_loop"`
	Axis      string            `json:"axis"`   // the options that vary: in_flight, clients, rate
	Metric    string            `json:"metric"` // of the latency
	Points    []Point           `json:"points"`
	// Knee, Peak and those in Operating are indices of Points.
	Knee *int `json:"knee,omitempty"`
	// Peak is the point with the highest throughput under the objective, if any. That of an open
	// loop lies below the lowest rate that misses it.
	Peak      *int             `json:"peak,omitempty"`
	Operating []OperatingPoint `json:"operating"`
	// Servers is set if there is a target. It has a row for the objective, or for each operating
	// point if there is no objective.
	Servers []ServersNeeded `json:"servers,omitempty"`
	// Message has the main figure in a sentence.
	Message string `json:"message"`
}

// Point is one load.
type Point struct {
	Cell    int           `json:"cell"` // index in the set's cells
	Load    string        `json:"load"` // "in_flight=8"
	Rate    result.Metric `json:"rate"`
	Latency result.Metric `json:"latency"`
	// Sustained is the offered rate of an open loop that reached it, which is no more than its
	// server can do. Windows complete more or less than that, because arrivals are random.
	Sustained float64 `json:"sustained,omitempty"`
	// Windows says which windows the figures are of, as tables do: "8 near". It is empty if there
	// are no others.
	Windows string `json:"windows,omitempty"`
	// Meets is "yes" if the upper end of the interval is below the objective, "perhaps" if only the
	// median is, else "no". It is empty without an objective.
	Meets string `json:"meets,omitempty"`
	// AfterMiss is set if a lower rate of the open loop misses the objective. Then the point never
	// counts: its windows may only have been lucky.
	AfterMiss bool `json:"after_miss,omitempty"`
	// Within is the share of the response times of all windows that are within the objective. It is
	// absent without an objective for response times.
	Within *float64 `json:"within,omitempty"`
	// Worst are the worst ten seconds of a replay under an objective for response times, as in
	// [ReplayTimes].
	Worst *ReplaySpan `json:"worst,omitempty"`
	// Stalled is the share of the time for which something stopped the threads, if that is above
	// [result.MuchStalled]: the tail is then the machine's.
	Stalled float64 `json:"stalled,omitempty"`
	// Past is set if a smaller load has more throughput.
	Past bool `json:"past_peak,omitempty"`
	// Unusable is why the figures must not be used. Such a point is shown but never chosen.
	Unusable string `json:"unusable,omitempty"`
}

// OperatingPoint is a recommended point.
type OperatingPoint struct {
	Name  string `json:"name"` // "low latency", "balanced", "high throughput", "maximum"
	Point int    `json:"point"`
	Why   string `json:"why"`
}

// ServersNeeded is the number of servers for a target.
type ServersNeeded struct {
	Name    string `json:"name"` // the objective, or the operating point
	Point   int    `json:"point"`
	Servers int    `json:"servers"`
	// Low and High follow from the interval of the throughput; absent if it has none, or if the
	// point sustained its offered rate. Servers is then an upper limit.
	Low  *int `json:"low,omitempty"`
	High *int `json:"high,omitempty"`
}
