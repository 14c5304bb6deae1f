package runner

import (
	"errors"
	"fmt"

	"transportbench/core/lab/result"
)

// Merge combines results of one configuration into one result with all their repeats, as if one
// run had made them. It computes summary and checks anew. Fields that a run has once, such as
// placement and setup, are those of the first part; metrics that a run measures once have one
// sample for each part.
//
// Parts of different binaries, runtimes or providers are an error.
func Merge(parts []*result.Result) (*result.Result, error) {
	if len(parts) == 0 {
		return nil, errors.New("merging results: no results")
	}
	first := parts[0]
	merged := *first
	merged.ID = result.NewID()
	merged.Repeats = nil
	e := evidence{result: &merged}
	var overhead, verify []float64
	for _, part := range parts {
		a, b := part.Plugin, first.Plugin
		if a.Name != b.Name || a.SHA256 != b.SHA256 || a.Provider != b.Provider || a.RuntimeDigest != b.RuntimeDigest {
			return nil, fmt.Errorf("merging results: %s (%s, %.12s) and %s (%s, %.12s) are not the same plugin",
				b.Name, b.Provider, b.SHA256, a.Name, a.Provider, a.SHA256)
		}
		for _, repeat := range part.Repeats {
			repeat.Index = len(merged.Repeats)
			merged.Repeats = append(merged.Repeats, repeat)
		}
		if part.Incomplete && !merged.Incomplete {
			merged.Incomplete, merged.IncompleteReason = true, part.IncompleteReason
		}
		overhead = append(overhead, part.Overhead.PerOpNS)
		verify = append(verify, part.Overhead.VerifyNS)
		e.add(part)
	}
	merged.Config.Repeats = len(merged.Repeats)
	merged.Summary = result.SummarizeRepeats(merged.Repeats)
	merged.Summary[result.HarnessOverhead] = result.Summarize(result.HarnessOverhead, overhead)
	merged.Summary[result.VerifyCost] = result.Summarize(result.VerifyCost, verify)
	merged.Checks = runChecks(e)
	return &merged, nil
}

// add extracts the evidence of a finished result. It keeps the densest sampling, because that one
// costs most.
func (e *evidence) add(part *result.Result) {
	for _, repeat := range part.Repeats {
		for _, report := range repeat.Ranks {
			if n := report.SampleEvery; n > 0 && (e.sampleEvery == 0 || n < e.sampleEvery) {
				e.sampleEvery = n
			}
		}
	}
	for _, c := range part.Checks {
		switch c.Name {
		case "oversubscribed":
			e.pollers, e.cpus = int(c.Value), int(c.Limit)
			e.oversubscribed = e.oversubscribed || !c.OK
		case "closed":
			if !c.OK {
				e.closing = append(e.closing, errors.New(c.Message))
			}
		}
	}
}
