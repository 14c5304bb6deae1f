package result

import (
	"cmp"
	"errors"
	"fmt"

	"transportbench/core/base/record"
)

// Join combines results of one configuration into one result with all their repeats, as if one run
// had made them. It computes the summary anew, but not the checks. Placement and setup are those of
// the first part, and its Launches has those of all; metrics that a launch measures once have one
// sample for each part.
//
// Parts of different binaries, runtimes or providers are an error.
func Join(parts []*Result) (*Result, error) {
	if len(parts) == 0 {
		return nil, errors.New("merging results: no results")
	}
	first := parts[0]
	merged := *first
	merged.ID = NewID()
	merged.Repeats = []Repeat{} // never nil, which JSON shows as null
	merged.Launches, merged.Config.Repeats = nil, 0
	for _, part := range parts {
		if err := SamePlugin(first, part); err != nil {
			return nil, fmt.Errorf("merging results: %w", err)
		}
		for _, repeat := range part.Repeats {
			repeat.Index = len(merged.Repeats)
			repeat.Launch += len(merged.Launches)
			merged.Repeats = append(merged.Repeats, repeat)
		}
		if part.Incomplete && !merged.Incomplete {
			merged.Incomplete, merged.IncompleteReason = true, part.IncompleteReason
		}
		if merged.FailedRepeat, merged.Failure = nil, part.Failure; part.FailedRepeat != nil {
			failed := *part.FailedRepeat
			failed.Launch += len(merged.Launches)
			merged.FailedRepeat = &failed
		}
		merged.Launches = append(merged.Launches, part.Launches...)
		merged.Config.Repeats += part.Config.Repeats
	}
	merged.Witness = witnessOf(parts)
	var err error
	if merged.Pooled, err = Pool(ResponsesOf(merged.Repeats)); err != nil {
		return nil, fmt.Errorf("merging results: %w", err)
	}
	merged.Summary = SummarizeRepeats(merged.Repeats)
	merged.Overhead = overheadOf(merged.Repeats)
	return &merged, nil
}

// SamePlugin returns an error if the results are of different binaries, runtimes or providers.
func SamePlugin(first, other *Result) error {
	a, b := first.Plugin, other.Plugin
	if a.Name == b.Name && a.SHA256 == b.SHA256 && a.Provider == b.Provider &&
		a.RuntimeDigest == b.RuntimeDigest {
		return nil
	}
	return fmt.Errorf("%s (%s, %.12s) and %s (%s, %.12s) are not the same plugin",
		a.Name, a.Provider, a.SHA256, b.Name, b.Provider, b.SHA256)
}

// witnessOf returns the witness of all parts: the first one, with the first reason why readings are
// missing.
func witnessOf(parts []*Result) *Witness {
	if parts[0].Witness == nil {
		return nil
	}
	w := *parts[0].Witness
	for _, part := range parts {
		if part.Witness != nil {
			w.Missing = cmp.Or(w.Missing, part.Witness.Missing)
		}
	}
	return &w
}

// MedianOverhead returns the medians of overheads. A rank without clients or daemons has no cost of
// them, which does not count.
func MedianOverhead(all []record.Overhead) (m record.Overhead) {
	of := func(field func(*record.Overhead) float64) float64 {
		var values []float64
		for i := range all {
			if v := field(&all[i]); v > 0 {
				values = append(values, v)
			}
		}
		return record.Median(values)
	}
	m.ClientNS = of(func(o *record.Overhead) float64 { return o.ClientNS })
	m.DaemonNS = of(func(o *record.Overhead) float64 { return o.DaemonNS })
	m.VerifyNS = of(func(o *record.Overhead) float64 { return o.VerifyNS })
	m.StampNS = of(func(o *record.Overhead) float64 { return o.StampNS })
	if m.PerOpNS = m.ClientNS + m.DaemonNS; m.PerOpNS == 0 {
		m.PerOpNS = of(func(o *record.Overhead) float64 { return o.PerOpNS })
	}
	return m
}

// overheadOf returns the medians over repeats.
func overheadOf(repeats []Repeat) record.Overhead {
	var all []record.Overhead
	for i := range repeats {
		if o := repeats[i].Overhead; o != nil {
			all = append(all, *o)
		}
	}
	return MedianOverhead(all)
}
