package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Plugin is the plugin of a transport.
type Plugin struct {
	// Identity has the name, versions and digests; results get it.
	Identity result.Plugin
	Path     string // of its executable
	Info     transport.Info
	// Microbenchmarks are the names of its own; none if it is too old to list them.
	Microbenchmarks []string
	// Err is why the plugin gave no description.
	Err error
	// Launcher returns what starts ranks, which log to log. mixed allows another version of the
	// runtime.
	Launcher func(log io.Writer, mixed bool) (runner.Launcher, error)
	// Micro runs the plugin's microbenchmarks and calls report with each answer as it arrives.
	Micro func(ctx context.Context, request record.MicroRequest,
		report func(record.MicroAnswer) error) error
}

// Unavailable returns why the plugin cannot run, as far as that is known without trying, or an
// empty string.
func (p *Plugin) Unavailable() string {
	if p.Err != nil {
		return printable.Joined(p.Err)
	}
	return record.Cut(p.Info.Unavailable)
}

// Problem is Unavailable as an error.
func (p *Plugin) Problem() error {
	if p.Err == nil && p.Info.Unavailable != "" {
		return fmt.Errorf("%s: %w", p.Identity.Name,
			transport.Unavailable("%s", record.Cut(p.Info.Unavailable)))
	}
	return p.Err
}

// Plugins are the plugins of an experiment by the name of their transport.
type Plugins map[string]*Plugin

// allTransports stands for all transports in a [Spec].
const allTransports = "all"

// pluginsOf returns plugins by name.
func pluginsOf(list []*Plugin) (Plugins, error) {
	all := Plugins{}
	for _, p := range list {
		// whether it can run here is not known
		if p.Err != nil && !errors.Is(p.Err, transport.ErrUnavailable) {
			return nil, fmt.Errorf("%w; try again, or name other transports with --transport",
				p.Err)
		}
		all[p.Identity.Name] = p
	}
	return all, nil
}

// available returns the error of the first transport that cannot run here, or nil.
func (all Plugins) available() error {
	for _, name := range all.transports() {
		if err := all[name].Problem(); err != nil {
			return err
		}
	}
	return nil
}

func (all Plugins) transports() []string { return slices.Sorted(maps.Keys(all)) }

// own returns the names of a transport's own options. ok is false if the transport is unknown.
func (all Plugins) own(name string) (names []string, ok bool) {
	p, ok := all[name]
	if !ok {
		return nil, name == allTransports
	}
	for _, o := range p.Info.Options {
		names = append(names, o.Name)
	}
	return names, true
}

// Resolve returns the configuration of layers and of own, the transport's own options. An error is
// a mistake in the options. If the transport cannot run on this machine, unavailable says why and
// the configuration is still complete. A cell on the track matched that is the same on the track
// shipped is that one, so that it is not measured twice.
func (p *Plugin) Resolve(layers []config.Layer, own map[string]string) (c config.Config,
	unavailable string, err error) {
	name := p.Identity.Name
	c, origins, err := config.Resolve(layers...)
	if err != nil {
		for _, o := range p.Info.Options {
			if _, set := origins[o.Name]; set {
				err = fmt.Errorf("%w; the option of %s with this name is %s.%s", err, name,
					name, o.Name)
			}
		}
		return c, "", err
	}
	c.Transport, c.Options = name, map[string]string{}
	if p.Err != nil {
		return c, p.Unavailable(), nil
	}
	if c.Options, err = p.complete(own, c.Track); err != nil {
		return c, "", err
	}
	if c.Track == config.TrackMatched {
		shipped, _, err := config.Resolve(
			append(slices.Clip(layers), config.Layer{
				Values: map[string]string{"track": config.TrackShipped.String()}})...)
		if err != nil {
			return c, "", err
		}
		defaults, err := p.complete(own, config.TrackShipped)
		if err != nil {
			return c, "", err
		}
		if shipped.VerifyEvery == c.VerifyEvery && maps.Equal(defaults, c.Options) {
			c.Track = config.TrackShipped
		}
	}
	return c, p.Unavailable(), nil
}

// complete returns the transport's own options: those of own, those that the track sets, and the
// defaults.
func (p *Plugin) complete(own map[string]string, track config.Track) (map[string]string, error) {
	own, err := track.OwnOptions(p.Info, own)
	if err != nil {
		return nil, err
	}
	values, err := suggest.ParseOptions(p.Info.Options, own)
	if err != nil {
		return nil, err
	}
	return values.Map(), nil
}
