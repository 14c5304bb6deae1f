package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
)

// Run makes one run and returns its result. obs may be nil.
//
// The repeats are divided among launches, by default one each: every launch starts the ranks,
// warms up, measures and ends them. [Merge] makes one result of them.
//
// Request.Config must be valid. Run returns a [*config.Error] for options that this machine cannot
// meet, and a [*RankError] for a rank that fails or does not answer.
//
// If ctx ends, Run stops the ranks, drops the current repeat and returns ctx's error, together
// with an incomplete result if at least one repeat was complete. If a rank fails during or after
// a window, Run returns the error together with a result of the complete repeats, what the ranks
// recorded of the failed repeat, and the failure. If a rank fails before the first window, there is
// no result. Callers save a result that is not nil, whatever the error. Request.Keep gets the
// repeats of a run that may be killed before it returns.
//
// If a check finds that the numbers must not be used, Run returns no error; see
// [result.Result.Failed].
func Run(ctx context.Context, req Request, obs Observer) (*result.Result, error) {
	if err := Check(req); err != nil {
		return nil, err
	}
	oomKills := req.oomKills(ctx)
	plans, busiest, err := placePools(req.Config, req.Capabilities, req.pools())
	if err != nil {
		return nil, err
	}
	req.setOptions(plans)
	req.setKinds(plans)
	for rank := range plans {
		plans[rank].Replay = req.Replay
	}
	progress := newProgress(req.Config, req.Beside, obs)
	var parts []*result.Result // of the launches
	done := 0                  // repeats
	var closing []error        // of ranks
	probesGivenUp, unwitnessed := false, ""
	judge := func(merged *result.Result) {
		merged.Checks = check.Run(check.Evidence{
			Result: merged, Pollers: busiest.threads, CPUs: busiest.cpus,
			Oversubscribed: busiest.oversubscribed(), Closing: closing,
		})
	}
	keep := func(repeats int, launch func() *result.Result) error {
		if repeats += done; req.Keep == nil || repeats == req.Config.Repeats {
			return nil // the result is about to have them
		}
		return req.Keep(repeats, func() (*result.Result, error) {
			kept := parts
			if launch != nil {
				kept = append(slices.Clone(parts), launch())
			}
			merged, err := result.Join(kept)
			if err != nil {
				return nil, err
			}
			merged.Config = req.Config
			merged.Incomplete, merged.IncompleteReason = true,
				fmt.Sprintf("the run had not ended after %d of %d repeats", repeats,
					req.Config.Repeats)
			judge(merged)
			return merged, nil
		})
	}
	for i, repeats := range req.Config.RepeatsByLaunch() {
		if err = ctx.Err(); err != nil {
			break
		}
		b := &bench{
			req: req, cfg: req.Config, plans: plans, oversubscribed: busiest.oversubscribed(),
			began:   time.Now(),
			earlier: done, ranks: newRanks(len(plans), &req), progress: progress,
			steady: newSteady(req.Config.CallingRanks()), probesGivenUp: probesGivenUp,
			unwitnessed: unwitnessed, keep: keep,
		}
		b.cfg.Repeats = repeats
		if i == 0 && !req.Began.IsZero() {
			b.began, b.steps = req.Began, slices.Clone(req.Steps)
		}
		var part *result.Result
		part, err = b.run(ctx)
		probesGivenUp, unwitnessed = b.probesGivenUp, b.unwitnessed
		if part != nil && i > 0 {
			if unlike := result.SamePlugin(parts[0], part); unlike != nil {
				part, err = nil, fmt.Errorf("process start %d: %w", i+1, unlike)
			}
		}
		if part != nil {
			parts, closing = append(parts, part), append(closing, b.closing...)
			done += len(part.Repeats)
		}
		if err == nil {
			err = keep(0, nil)
		}
		if err != nil {
			break
		}
	}
	progress.end()
	if err != nil && ctx.Err() == nil && req.Explain != nil {
		err = req.Explain(err)
	}
	if err != nil {
		err = explainLimit(err, req.System, max(req.oomKills(context.WithoutCancel(ctx)),
			oomKills)-oomKills)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		if err = ctx.Err(); done == 0 { // most likely the interruption made the rank fail
			return nil, err
		}
	case len(parts) == 0:
		return nil, err
	}
	merged := conclude(req, parts, err, ctx.Err() != nil)
	judge(merged)
	return merged, err
}

// conclude merges the launches of a run that ended with err; interrupted means that the user ended
// it.
func conclude(req Request, parts []*result.Result, err error, interrupted bool) *result.Result {
	merged, unlike := result.Join(parts)
	if unlike != nil {
		panic(unlike) // Run compared them
	}
	merged.Config = req.Config
	merged.Incomplete, merged.IncompleteReason = false, ""
	if err != nil {
		CutShort(merged, fmt.Sprintf("%d of %d repeats", len(merged.Repeats), req.Config.Repeats),
			err, interrupted)
	}
	if merged.Failure == nil {
		merged.FailedRepeat = nil
	}
	return merged
}

// CutShort marks r as the result of what was complete when err ended its run; interrupted means
// that the user ended it.
func CutShort(r *result.Result, complete string, err error, interrupted bool) {
	r.Incomplete = true
	if interrupted {
		r.IncompleteReason = "interrupted after " + complete
		return
	}
	r.IncompleteReason = fmt.Sprintf("failed after %s: %v", complete, err)
	r.Failure = failureOf(err)
}

// failureOf returns what the result records of the error that ended a run.
func failureOf(err error) *result.Failure {
	f := &result.Failure{Rank: -1, Error: err.Error()}
	var rankErr *RankError
	if errors.As(err, &rankErr) {
		f.Rank, f.Operation = rankErr.Rank, rankErr.Op
	}
	var died *record.ExitError
	if errors.As(err, &died) {
		f.Output = died.Output
	}
	return f
}
