package analyze

import "transportbench/core/lab/result"

// CapacityOptions are what is asked of a set.
type CapacityOptions struct {
	Objective *Objective // nil is none
	// Rate is the metric that counts as throughput. Empty is the throughput, or
	// what a set has instead: iterations, or tokens.
	Rate string
	// Target is the rate that servers are counted for; 0 is none.
	Target float64
}

// Capacity is what the loads of a set allow.
type Capacity struct {
	// Rate is the metric of throughput, and Objective that of the times: what
	// the caller asked for, or the defaults.
	Rate      string     `json:"rate"`
	Objective *Objective `json:"objective,omitempty"`
	// KneeMethod names how knees were found.
	KneeMethod string  `json:"knee_method"`
	Target     float64 `json:"target,omitempty"`
	Curves     []Curve `json:"curves"`
	// Notes are lines on what was left out, and why.
	Notes []string `json:"notes,omitempty"`
}

// Objective is an upper limit on a time, such as p99<50us.
type Objective struct {
	Metric string  `json:"metric"` // p99, read_p50, ...
	Limit  float64 `json:"limit_ns"`
	Text   string  `json:"text"` // as it was given
}

// Curve is one configuration under several loads, in order of load. Closed and
// open loops are never on one curve.
type Curve struct {
	Label     string            `json:"label"` // transport and what tells it from other curves
	Transport string            `json:"transport"`
	Config    map[string]string `json:"config"` // what its points have in common
	Open      bool              `json:"open_loop"`
	Axis      string            `json:"axis"`   // the options that vary: in_flight, clients, rate
	Metric    string            `json:"metric"` // of the latency
	Points    []Point           `json:"points"`
	// Knee, Most and those in Operating are indices of Points.
	Knee *int `json:"knee,omitempty"`
	// Most is the most throughput under the objective, or absent.
	Most      *int        `json:"most,omitempty"`
	Operating []Operating `json:"operating"`
	// Servers has a row for the objective, or without one for each operating
	// point, where there is a target.
	Servers []Need `json:"servers,omitempty"`
	// Message says it in a sentence.
	Message string `json:"message"`
}

// Point is one load.
type Point struct {
	Cell    int           `json:"cell"` // index in the set's cells
	Load    string        `json:"load"` // "in_flight=8"
	Rate    result.Metric `json:"rate"`
	Latency result.Metric `json:"latency"`
	// Meets says whether the objective is met: "yes" where the interval's upper
	// end is under it, "perhaps" where only the median is, else "no"; empty
	// without an objective.
	Meets string `json:"meets,omitempty"`
	// Past says that a smaller load has more throughput.
	Past bool `json:"past_peak,omitempty"`
	// Unusable says why the figures must not be used; such a point is shown and
	// never chosen.
	Unusable string `json:"unusable,omitempty"`
}

// Operating is a recommended point.
type Operating struct {
	Name  string `json:"name"` // "low latency", "balanced", "high throughput", "maximum"
	Point int    `json:"point"`
	Why   string `json:"why"`
}

// Need is how many servers a target takes.
type Need struct {
	Name    string `json:"name"` // the objective, or the operating point
	Point   int    `json:"point"`
	Servers int    `json:"servers"`
	// Low and High carry the interval of the throughput through; absent where
	// it has none.
	Low  *int `json:"low,omitempty"`
	High *int `json:"high,omitempty"`
}
