package cli

import (
	"context"
	"runtime"
	"sync"
	"time"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// trialLimit bounds each step of a trial.
const trialLimit = 5 * time.Second

// try opens the transport of an entry as the first rank of a default run does, and closes it again,
// so that the transport itself says what it takes here. It returns nil for a plugin that cannot
// run.
func (e *entry) try(ctx context.Context) *listing.Trial {
	if e.unavailable() != "" {
		return nil
	}
	properties, err := e.open(ctx)
	if err != nil {
		return &listing.Trial{Failed: oneLine(err)}
	}
	return &listing.Trial{Provider: properties.Provider, Chosen: properties.Chosen,
		Reason: properties.Notes[transport.NoteAuto]}
}

func (e *entry) open(ctx context.Context) (transport.Properties, error) {
	process, err := e.Launch(ctx, host.LaunchOptions{StartTimeout: trialLimit})
	if err != nil {
		return transport.Properties{}, err
	}
	defer func() { _ = process.Kill() }()
	cfg := config.Default()
	cfg.Transport = e.Name
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	prepared, err := process.Prepare(ctx, record.Plan{Config: cfg, CPUs: []int{-1},
		Idle: config.IdleYield})
	if err != nil {
		return transport.Properties{}, err
	}
	_ = process.Close(ctx) // the process ends in any case
	return prepared.Properties, nil
}

// tried returns what auto takes, as a finding for each transport that takes something.
func (a *app) tried(ctx context.Context, s *options.Settings) ([]doctor.Finding, error) {
	entries, err := a.catalog(ctx, s.PluginDir)
	if err != nil {
		return nil, err
	}
	entries = candidates(entries)
	trials := make([]*listing.Trial, len(entries))
	room := make(chan struct{}, runtime.NumCPU())
	var trying sync.WaitGroup
	for i, e := range entries {
		trying.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			trials[i] = e.try(ctx)
		})
	}
	trying.Wait()
	var findings []doctor.Finding
	for i, e := range entries {
		f := doctor.Finding{Name: "auto-" + e.Name, Status: doctor.Note}
		switch t := trials[i]; {
		case t == nil:
			f.Value, f.Meaning = "not available", e.unavailable()
		case t.Failed != "":
			f.Value, f.Meaning = "does not open", t.Failed
		case t.Reason != "":
			f.Value, f.Meaning = t.Summary(), t.Reason
		default:
			f.Value, f.Meaning, f.Status = t.Summary(),
				"The default options leave nothing to choose that depends on the machine.",
				doctor.OK
		}
		findings = append(findings, f)
	}
	return findings, ctx.Err()
}
