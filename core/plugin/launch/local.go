package launch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/network"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
)

// Options say how ranks start.
type Options struct {
	// Log gets what the plugins on this host log: errors, shortened, or with Verbose all but debug
	// messages.
	Log     io.Writer
	Verbose bool
	// AllowMixed allows another version of the runtime.
	AllowMixed   bool
	StartTimeout time.Duration // as in runner.Request
}

// level is the least level of the messages to show.
func (o *Options) level() slog.Level {
	if o.Verbose {
		return slog.LevelInfo
	}
	return slog.LevelError
}

func (o *Options) handler() *slog.HandlerOptions {
	h := &slog.HandlerOptions{Level: o.level()}
	if !o.Verbose {
		h.ReplaceAttr = func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Value.Kind() == slog.KindString {
				attr.Value = slog.StringValue(record.Cut(attr.Value.String()))
			}
			return attr
		}
	}
	return h
}

// Here returns a launcher of a plugin on this host. If the environment has running plugins of the
// transport, it connects to those, which run in debuggers.
func Here(p *host.Plugin, o Options) (runner.Launcher, error) {
	l := local{plugin: p, options: host.LaunchOptions{
		Logger: slog.New(slog.NewTextHandler(o.Log, o.handler())), AllowMixedRuntime: o.AllowMixed,
		StartTimeout: o.StartTimeout,
	}}
	all, err := host.Reattachments()
	if err != nil {
		return nil, err
	}
	var running []plugin.Reattach
	for _, r := range all {
		if r.Transport == p.Name {
			running = append(running, r)
		}
	}
	if len(running) > 0 {
		return &attached{l, running}, nil
	}
	return &l, nil
}

// local starts the ranks of one transport on this host.
type local struct {
	plugin  *host.Plugin
	options host.LaunchOptions
	network *network.Network // nil for that of this host
}

// Launch implements [runner.Launcher].
func (l *local) Launch(ctx context.Context, rank int) (runner.Process, error) {
	options := l.options
	if l.network != nil {
		options.Space = l.network.Space(rank)
	}
	return l.process(l.plugin.Launch(ctx, options))
}

// In returns a launcher of ranks in a network; see experiment.Networked.
func (l *local) In(n *network.Network) runner.Launcher {
	networked := *l
	networked.network = n
	return &networked
}

func (l *local) process(p *host.Process, err error) (runner.Process, error) {
	if err != nil {
		return nil, err
	}
	return process{p, l.options.Logger}, nil
}

// attached connects to ranks that run already.
type attached struct {
	local   local
	running []plugin.Reattach // by rank
}

// Launch implements [runner.Launcher].
func (l *attached) Launch(ctx context.Context, rank int) (runner.Process, error) {
	if rank >= len(l.running) {
		return nil, fmt.Errorf("%s: %d plugins of %s for more ranks; add the others or unset it",
			plugin.EnvReattach, len(l.running), l.local.plugin.Name)
	}
	return l.local.process(host.Attach(ctx, l.running[rank], l.local.options))
}

// process logs Kill errors instead of returning them.
type process struct {
	*host.Process
	logger *slog.Logger
}

// Kill implements [runner.Process].
func (p process) Kill() {
	if err := p.Process.Kill(); err != nil {
		p.logger.Error("kill plugin", "error", err)
	}
}
