package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/result"
	"transportbench/core/plugin"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/launch"
	"transportbench/core/transport"
)

// NoPlugins says that there are no plugins, and the remedy.
const NoPlugins = "no plugins found; build them with make build, or name their directory with " +
	"--plugin-dir"

// Entry is a plugin with its description.
type Entry struct {
	*host.Plugin
	Description plugin.Description
	err         error // the plugin gave no description
}

// Known returns the plugin as the engine sees it, without what runs it.
func (e *Entry) Known() *experiment.Plugin {
	info := e.Description.Info
	return &experiment.Plugin{
		Identity: result.Plugin{
			Name: e.Name, Version: info.Version, Matched: info.Matched,
			RuntimeDigest: e.Description.RuntimeDigest, Sources: e.Description.Sources,
			Revision: core.OtherRevision(e.Description.Revision),
		},
		Path: e.Path, Info: info, Microbenchmarks: e.Description.Microbenchmarks, Err: e.err,
	}
}

// Unavailable is [experiment.Plugin.Unavailable].
func (e *Entry) Unavailable() string { return e.Known().Unavailable() }

// Listed returns the plugin as listings show it.
func (e *Entry) Listed() listing.Plugin {
	p := listing.Plugin{Name: e.Name, Path: e.Path, Unavailable: e.Unavailable()}
	var err error
	if p.SHA256, err = e.SHA256(); err != nil && p.Unavailable == "" {
		p.Unavailable = printable.Joined(err)
	}
	if e.err == nil {
		p.Description = &e.Description
	}
	return p
}

// All returns all installed plugins.
func All(ctx context.Context, dir string) ([]*Entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	return describe(ctx, host.Discover(dirs))
}

// Candidates returns the entries that [options.All] selects: all that are not instruments.
func Candidates(entries []*Entry) []*Entry {
	return slices.DeleteFunc(entries, func(e *Entry) bool { return e.Description.Info.Instrument })
}

// Find returns the plugins of the named transports in their order, or all
// installed candidates if [options.All] is among the names.
func Find(ctx context.Context, dir string, names []string) ([]*Entry, error) {
	dirs, err := host.Dirs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := findAmong(ctx, dirs, names)
	if err == nil && len(entries) == 0 {
		err = errors.New(NoPlugins)
	}
	return entries, err
}

// findAmong is find in directories. It returns a [*files.ExposedError] if another
// user could replace one of the plugins.
func findAmong(ctx context.Context, dirs, names []string) ([]*Entry, error) {
	if slices.Contains(names, options.All) {
		entries, err := describe(ctx, host.Discover(dirs))
		return noneExposed(Candidates(entries), err)
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
func noneExposed(entries []*Entry, err error) ([]*Entry, error) {
	for _, e := range entries {
		var exposed *files.ExposedError
		if errors.As(e.err, &exposed) {
			return nil, e.err
		}
	}
	return entries, err
}

// FindIn returns the plugins of the named transports in one directory.
func FindIn(ctx context.Context, dir string, names []string) ([]*Entry, error) {
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

// OptionsIn returns the options of a transport by its plugin in a directory, which need not be able
// to run, or nil if there is none.
func OptionsIn(ctx context.Context, dir, name string) []transport.Option {
	entries, err := FindIn(ctx, dir, []string{name})
	if err != nil {
		return nil
	}
	return entries[0].Description.Info.Options
}

// FindOne returns the plugin that an argument names. It fails if the
// plugin gives no description.
func FindOne(ctx context.Context, dir, name string) (*Entry, error) {
	entries, err := Find(ctx, dir, []string{name})
	var wrong *config.Error
	if errors.As(err, &wrong) { // it names a flag
		return nil, app.Usagef("%s", wrong.Problem)
	}
	if err != nil {
		return nil, err
	}
	return entries[0], entries[0].err
}

// describe asks plugins for their descriptions. It fails only if ctx ends.
func describe(ctx context.Context, plugins []*host.Plugin) ([]*Entry, error) {
	entries := make([]*Entry, len(plugins))
	var asking sync.WaitGroup
	for i, p := range plugins {
		e := &Entry{Plugin: p}
		entries[i] = e
		asking.Go(func() { e.Description, e.err = p.Describe(ctx) })
		asking.Go(func() { _, _ = p.SHA256() }) // it is cached
	}
	asking.Wait()
	return entries, ctx.Err()
}

// Installed returns the installed transports for a command line that need not be complete.
func Installed(cmd *cobra.Command) ([]*Entry, error) {
	dir := ""
	if f := cmd.Flags().Lookup(options.KeyPluginDir); f != nil {
		dir = f.Value.String()
	}
	return All(cmd.Context(), dir)
}

// DescribeOn asks the hosts of a run for the descriptions of plugins in place of those of this
// host. It does nothing without hosts.
func DescribeOn(ctx context.Context, hosts *launch.Cluster, entries []*Entry) error {
	if hosts == nil {
		return nil
	}
	var plugins []*host.Plugin
	for _, e := range entries {
		plugins = append(plugins, e.Plugin)
	}
	return hosts.Describe(ctx, plugins, func(i int, d plugin.Description, err error) {
		if entries[i].err = err; err == nil {
			entries[i].Description = d
		}
	})
}
