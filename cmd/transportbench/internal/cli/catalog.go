package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/config"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// note writes a line for people, who may be reading standard output or not.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "transportbench: "+format+"\n", args...)
}

// entry is a plugin and what it says of itself.
type entry struct {
	*host.Plugin
	description plugin.Description
	err         error // it gave no description
}

// unavailable says why the plugin cannot run, as far as it is known without
// trying; an empty text is that nothing is in the way.
func (e *entry) unavailable() string {
	if e.err != nil {
		return oneLine(e.err)
	}
	return e.description.Info.Unavailable
}

func (e *entry) present() present.Plugin {
	p := present.Plugin{Name: e.Name, Path: e.Path, Unavailable: e.unavailable()}
	var err error
	if p.SHA256, err = e.SHA256(); err != nil && p.Unavailable == "" {
		p.Unavailable = oneLine(err)
	}
	if e.err == nil {
		p.Description = &e.description
	}
	return p
}

// catalog returns every plugin that can be found, described.
func (a *app) catalog(ctx context.Context, dir string) ([]*entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	return describe(ctx, host.Discover(dirs)), nil
}

// find returns the plugins of the transports, described, in their order.
func (a *app) find(ctx context.Context, dir string, names []string) ([]*entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	var plugins []*host.Plugin
	for _, name := range names {
		p, err := host.Find(name, dirs)
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, p)
	}
	return describe(ctx, plugins), nil
}

// findArgument returns the plugin of a transport that an argument names, and that gave a
// description.
func (a *app) findArgument(ctx context.Context, dir, name string) (*entry, error) {
	entries, err := a.find(ctx, dir, []string{name})
	var wrong *config.Error
	if errors.As(err, &wrong) { // which blames a flag
		return nil, usagef("%s", wrong.Problem)
	}
	if err != nil {
		return nil, err
	}
	return entries[0], entries[0].err
}

func describe(ctx context.Context, plugins []*host.Plugin) []*entry {
	entries := make([]*entry, len(plugins))
	var asking sync.WaitGroup
	for i, p := range plugins {
		e := &entry{Plugin: p}
		entries[i] = e
		asking.Go(func() { e.description, e.err = p.Describe(ctx) })
		asking.Go(func() { _, _ = p.SHA256() }) // whoever needs it finds it read
	}
	asking.Wait()
	return entries
}

// checkSet checks the options that the user set for the transports themselves
// and returns each transport's, complete. Of several transports each gets those
// that it has; one that none of them has is an error.
func checkSet(entries []*entry, set map[string]string) (map[string]map[string]string, error) {
	var known []string
	has := map[string]bool{}
	for _, e := range entries {
		for _, o := range e.description.Info.Options {
			if !has[o.Name] {
				known = append(known, o.Name)
			}
			has[o.Name] = true
		}
	}
	for name := range set {
		if !has[name] {
			return nil, &transport.OptionError{Option: name, Problem: "unknown" + transport.SuggestionFor(name, known)}
		}
	}
	complete := map[string]map[string]string{}
	for _, e := range entries {
		own := map[string]string{}
		for _, o := range e.description.Info.Options {
			if value, ok := set[o.Name]; ok {
				own[o.Name] = value
			}
		}
		values, err := transport.ParseOptions(e.description.Info.Options, own)
		if err != nil {
			return nil, err
		}
		complete[e.Name] = values.Map()
	}
	return complete, nil
}

// logger shows what plugins log: with verbose all but the finest, else errors.
func logger(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelError
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
