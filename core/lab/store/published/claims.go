package published

import "errors"

// Work is an amount, its time, and the rate that a document claims for it.
type Work struct {
	Amount    float64 `json:"amount"`
	Unit      string  `json:"unit"` // B, op, token
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
}

// Valid returns an error if a figure is not positive.
func (w Work) Valid() error {
	if !(w.Amount > 0 && w.Seconds > 0 && w.PerSecond > 0) {
		return errors.New("amount, seconds and per_second must be above 0")
	}
	return nil
}

// Loop is a document's figures of a polling loop.
type Loop struct {
	What string `json:"what"`
	// Loops is the number of iterations, LoopNS the time of one (0 if unknown), and Seconds the
	// time of all.
	Loops   float64 `json:"turns"`
	LoopNS  float64 `json:"turn_ns,omitempty"`
	Seconds float64 `json:"seconds"`
	// PerLoop counts events per iteration. PerSecond has the rates that the document claims
	// elsewhere for some of them.
	PerLoop   map[string]float64 `json:"per_turn"`
	PerSecond map[string]float64 `json:"per_second,omitempty"`
}

// Sum is a whole and its parts as a document claims them.
type Sum struct {
	What  string    `json:"what"`
	Whole float64   `json:"whole"`
	Unit  string    `json:"unit"`
	Parts []SumPart `json:"parts"`
}

// SumPart is Count times Each; an Each of 0 is unknown.
type SumPart struct {
	Name  string  `json:"name"`
	Count float64 `json:"count"`
	Each  float64 `json:"each"`
}

// Limit is a value and the bound that a document claims for it.
type Limit struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	// Of describes the bound: "4 NICs of 25 Gbit/s".
	Of string `json:"of"`
}

// Ratio is two figures and the factor between them that a document claims. Each may be a range.
type Ratio struct {
	What string `json:"what"`
	// From and To have one figure, or the two ends of a range.
	From []float64 `json:"from"`
	To   []float64 `json:"to"`
	Unit string    `json:"unit"`
	// Claimed is From over To, one figure or a range.
	Claimed []float64 `json:"claimed"`
}

// Percentiles is how a document computed its percentiles.
type Percentiles struct {
	// Combined is "averaged" or "merged".
	Combined string `json:"combined" jsonschema:"enum=averaged,enum=merged"`
	// Over is the number of processes, threads or runs.
	Over int    `json:"over"`
	Of   string `json:"of"`
}

// Averaged is the value of Percentiles.Combined for averages, which are a mistake.
const Averaged = "averaged"

// Timed is what a benchmark does between two readings of the clock.
type Timed struct {
	What string `json:"what"`
	// Calls are the system calls that are timed, and Of those that the operation consists of.
	Calls []string `json:"calls"`
	Of    []string `json:"of"`
}

// Lookups is how often a benchmark looks up something that exists.
type Lookups struct {
	What  string  `json:"what"`
	Count float64 `json:"count"`
	// Space is the size in bytes of the range in which the benchmark picks addresses at random, and
	// Covered that of the part with something to find.
	Space   float64 `json:"space"`
	Covered float64 `json:"covered"`
}

// Valid returns an error if there is nothing to pick from, or more to find than that.
func (l Lookups) Valid() error {
	if !(l.Space > 0 && l.Covered >= 0 && l.Covered <= l.Space) {
		return errors.New("space must be above 0, and covered from 0 to space")
	}
	return nil
}
