package runner

import (
	"errors"
	"fmt"

	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
)

// Merge combines results of one configuration into one result with all their repeats, as if one
// run had made them. It computes summary and checks anew. Placement and setup are
// those of the first part, and its Launches has those of all; metrics that a launch measures once
// have one sample for each part.
//
// Parts of different binaries, runtimes or providers are an error.
func Merge(parts []*result.Result) (*result.Result, error) {
	merged, err := join(parts)
	if err != nil {
		return nil, err
	}
	e := check.Evidence{Result: merged}
	for _, part := range parts {
		e.Add(part)
	}
	merged.Checks = check.Run(e)
	return merged, nil
}

// join is [Merge] without the checks.
func join(parts []*result.Result) (*result.Result, error) {
	if len(parts) == 0 {
		return nil, errors.New("merging results: no results")
	}
	first := parts[0]
	merged := *first
	merged.ID = result.NewID()
	merged.Repeats = []result.Repeat{} // never nil, which JSON shows as null
	merged.Launches, merged.Config.Repeats = nil, 0
	for _, part := range parts {
		if err := samePlugin(first, part); err != nil {
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
	if merged.Pooled, err = result.Pool(result.ResponsesOf(merged.Repeats)); err != nil {
		return nil, fmt.Errorf("merging results: %w", err)
	}
	merged.Summary = result.SummarizeRepeats(merged.Repeats)
	merged.Overhead = overheadOf(merged.Repeats)
	return &merged, nil
}

// samePlugin returns an error if the results are of different binaries, runtimes or providers.
func samePlugin(first, other *result.Result) error {
	a, b := first.Plugin, other.Plugin
	if a.Name == b.Name && a.SHA256 == b.SHA256 && a.Provider == b.Provider &&
		a.RuntimeDigest == b.RuntimeDigest {
		return nil
	}
	return fmt.Errorf("%s (%s, %.12s) and %s (%s, %.12s) are not the same plugin",
		a.Name, a.Provider, a.SHA256, b.Name, b.Provider, b.SHA256)
}
