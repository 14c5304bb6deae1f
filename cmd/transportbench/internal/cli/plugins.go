package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/result"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

const noPlugins = "no plugins found; build them with make build, or name their directory with " +
	"--plugin-dir"

// entry is a plugin with its description.
type entry struct {
	*host.Plugin
	description plugin.Description
	err         error // the plugin gave no description
}

// known returns the plugin as the engine sees it, without what runs it.
func (e *entry) known() *experiment.Plugin {
	info := e.description.Info
	return &experiment.Plugin{
		Identity: result.Plugin{
			Name: e.Name, Version: info.Version, Matched: info.Matched,
			RuntimeDigest: e.description.RuntimeDigest,
		},
		Path: e.Path, Info: info, Err: e.err, OneProbe: !e.description.ProbeKinds,
	}
}

// unavailable is [experiment.Plugin.Unavailable].
func (e *entry) unavailable() string { return e.known().Unavailable() }

func (e *entry) listed() listing.Plugin {
	p := listing.Plugin{Name: e.Name, Path: e.Path, Unavailable: e.unavailable()}
	var err error
	if p.SHA256, err = e.SHA256(); err != nil && p.Unavailable == "" {
		p.Unavailable = oneLine(err)
	}
	if e.err == nil {
		p.Description = &e.description
	}
	return p
}

// catalog returns all installed plugins.
func (a *app) catalog(ctx context.Context, dir string) ([]*entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	return describe(ctx, host.Discover(dirs))
}

// candidates returns the entries that [options.All] selects: all that are not instruments.
func candidates(entries []*entry) []*entry {
	return slices.DeleteFunc(entries, func(e *entry) bool { return e.description.Info.Instrument })
}

// find returns the plugins of the named transports in their order, or all
// installed candidates if [options.All] is among the names.
func (a *app) find(ctx context.Context, dir string, names []string) ([]*entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := findAmong(ctx, dirs, names)
	if err == nil && len(entries) == 0 {
		err = errors.New(noPlugins)
	}
	return entries, err
}

// findAmong is find in directories. It returns a [*files.ExposedError] if another
// user could replace one of the plugins.
func findAmong(ctx context.Context, dirs, names []string) ([]*entry, error) {
	if slices.Contains(names, options.All) {
		entries, err := describe(ctx, host.Discover(dirs))
		return noneExposed(candidates(entries), err)
	}
	var plugins []*host.Plugin
	for _, name := range names {
		p, err := host.Find(name, dirs)
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, p)
	}
	return noneExposed(describe(ctx, plugins))
}

// noneExposed passes its arguments on, unless an entry has a
// [*files.ExposedError].
func noneExposed(entries []*entry, err error) ([]*entry, error) {
	for _, e := range entries {
		var exposed *files.ExposedError
		if errors.As(e.err, &exposed) {
			return nil, e.err
		}
	}
	return entries, err
}

// findIn returns the plugins of the named transports in one directory.
func findIn(ctx context.Context, dir string, names []string) ([]*entry, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); dir == "" || err != nil || !info.IsDir() {
		return nil, &config.Error{Option: options.KeyPluginDir,
			Problem: fmt.Sprintf("%q is not a directory", dir)}
	}
	return findAmong(ctx, []string{path}, names)
}

// findArgument returns the plugin that an argument names. It fails if the
// plugin gives no description.
func (a *app) findArgument(ctx context.Context, dir, name string) (*entry, error) {
	entries, err := a.find(ctx, dir, []string{name})
	var wrong *config.Error
	if errors.As(err, &wrong) { // it names a flag
		return nil, usagef("%s", wrong.Problem)
	}
	if err != nil {
		return nil, err
	}
	return entries[0], entries[0].err
}

// describe asks plugins for their descriptions. It fails only if ctx ends.
func describe(ctx context.Context, plugins []*host.Plugin) ([]*entry, error) {
	entries := make([]*entry, len(plugins))
	var asking sync.WaitGroup
	for i, p := range plugins {
		e := &entry{Plugin: p}
		entries[i] = e
		asking.Go(func() { e.description, e.err = p.Describe(ctx) })
		asking.Go(func() { _, _ = p.SHA256() }) // it is cached
	}
	asking.Wait()
	return entries, ctx.Err()
}

// checkSet checks the transports' own options and returns them complete, by
// transport, with those that the track sets. Each transport gets the options that it has; an option
// that none of them has is an error.
func checkSet(entries []*entry, set map[string]string,
	track config.Track) (map[string]map[string]string, error) {
	var known []string
	has := map[string]bool{}
	complete := map[string]map[string]string{}
	for _, e := range entries {
		own := map[string]string{}
		for _, o := range e.description.Info.Options {
			known = append(known, o.Name)
			has[o.Name] = true
			if value, ok := set[o.Name]; ok {
				own[o.Name] = value
			}
		}
		own, err := track.OwnOptions(e.description.Info, own)
		if err != nil {
			return nil, err
		}
		values, err := transport.ParseOptions(e.description.Info.Options, own)
		if err != nil {
			return nil, err
		}
		complete[e.Name] = values.Map()
	}
	for name := range set {
		if !has[name] {
			return nil, &transport.OptionError{Option: name, Problem: "unknown" +
				transport.SuggestionFor(name, known)}
		}
	}
	return complete, nil
}

func (a *app) pluginsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the installed transports", Args: noArgs,
		Long: `list shows every plugin in --plugin-dir, in the directories of
TRANSPORTBENCH_PLUGIN_PATH and beside the executable, and whether it can run.`,
		RunE: a.withSettings(func(cmd *cobra.Command, s *options.Settings, _ []string) error {
			entries, err := a.catalog(cmd.Context(), s.PluginDir)
			if err != nil {
				return err
			}
			list := make([]listing.Plugin, len(entries))
			for i, e := range entries {
				list[i] = e.listed()
			}
			switch {
			case s.JSON:
				return writeJSON(a.stdout, list)
			case len(list) == 0:
				a.note(noPlugins)
			default:
				terminal.Print(a.stdout, listing.Plugins(list))
			}
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func (a *app) pluginsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a transport's capabilities, limits and options",
		Long: `show describes a transport. It opens the transport once with its default options,
without peers, so that the transport itself says what it takes on this machine
for options such as auto, and why.`,
		ValidArgsFunction: a.completeTransports,
		Args:              takes(1, 1, "the name of one transport (plugins list has them)"),
		RunE: a.withSettings(func(cmd *cobra.Command, s *options.Settings, args []string) error {
			e, err := a.findArgument(cmd.Context(), s.PluginDir, args[0])
			if err != nil {
				return err
			}
			shown := e.listed()
			shown.Trial = e.try(cmd.Context())
			if s.JSON {
				return writeJSON(a.stdout, shown)
			}
			terminal.Print(a.stdout, listing.PluginDetails(shown))
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}
