package catalog

import (
	"context"
	"time"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// trialLimit bounds each step of a trial.
const trialLimit = 5 * time.Second

// Try opens the transport of an entry as the first rank of a default run does, and closes it again,
// so that the transport itself says what it takes here. It returns nil for a plugin that cannot
// run.
func (e *Entry) Try(ctx context.Context) *listing.Trial {
	if e.Unavailable() != "" {
		return nil
	}
	properties, err := e.open(ctx)
	if err != nil {
		return &listing.Trial{Failed: printable.Joined(err)}
	}
	return &listing.Trial{Provider: properties.Provider, Chosen: properties.Chosen,
		Reason: properties.Notes[transport.NoteAuto]}
}

func (e *Entry) open(ctx context.Context) (transport.Properties, error) {
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
