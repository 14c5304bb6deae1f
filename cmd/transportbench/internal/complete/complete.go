package complete

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
	"transportbench/results"
)

// Flags completes the values of the flags of a command that runs transports.
func Flags(cmd *cobra.Command) {
	// These fail only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc(options.KeyTransport, Transports)
	_ = cmd.RegisterFlagCompletionFunc(options.KeySet, Set)
	if cmd.Flags().Lookup("profile") != nil {
		_ = cmd.RegisterFlagCompletionFunc("profile", Profiles)
	}
	for _, f := range config.Fields() {
		// its values may be files
		if f.Name != "profile" && f.Name != "value-size" && cmd.Flags().Lookup(f.Name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(f.Examples, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// Transports completes names of installed transports.
func Transports(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	entries, err := catalog.Installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name+"\t"+e.Description.Info.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Micro completes the name of a transport, and then its measurements and the one that all have.
func Micro(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return Transports(cmd, args, begun)
	}
	entries, err := catalog.Installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []string{record.MicroSetup + "\tsetting up and closing, again and again"}
	for _, e := range entries {
		if e.Name == args[0] {
			names = append(names, e.Description.Microbenchmarks...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(args[1:], name)
	}), cobra.ShellCompDirectiveNoFileComp
}

// Set completes "key=value" with the own options of the transports of --transport, or of the
// transport that is the argument, or of all.
func Set(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	entries, err := catalog.Installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var wanted []string
	f := cmd.Flags().Lookup(options.KeyTransport)
	if f != nil && f.Value.String() != "" &&
		f.Value.String() != options.All {
		wanted = strings.Split(f.Value.String(), ",")
	} else if f == nil {
		wanted = args[:min(1, len(args))] // of micro
	}
	key, _, valued := strings.Cut(begun, "=")
	found := map[string]string{}
	for _, e := range entries {
		if len(wanted) > 0 && !slices.Contains(wanted, e.Name) {
			continue
		}
		own := e.Description.Info.Options
		if f == nil {
			own = e.Description.Info.AllMicroOptions()
		}
		for _, o := range own {
			switch {
			case !valued:
				found[o.Name+"="] = o.Help
			case o.Name == key:
				for _, value := range valuesOf(o) {
					found[key+"="+value] = ""
				}
			}
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, strings.TrimSuffix(name+"\t"+found[name], "\t"))
	}
	if valued {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func valuesOf(o transport.Option) []string {
	switch {
	case len(o.Allowed) > 0:
		return o.Allowed
	case o.Type == transport.TypeBool:
		return []string{"true", "false"}
	}
	return nil
}

// Metrics completes a comma list of metrics, with their meanings.
func Metrics(_ *cobra.Command, _ []string, begun string) (names []string,
	_ cobra.ShellCompDirective) {
	first := begun[:strings.LastIndexByte(begun, ',')+1]
	for _, d := range result.Definitions {
		names = append(names, first+d.Name+"\t"+d.Help)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Axes completes the options that differ between the cells of the set that is the argument, or
// the options of every run.
func Axes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := config.Names()
	if len(args) > 0 {
		if s, err := set.Load(args[0]); err == nil {
			names = set.Varying(s.Cells)
		}
	}
	return append([]string{options.KeyTransport}, names...), cobra.ShellCompDirectiveNoFileComp
}

// Results completes directories and files of results.
func Results(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

// Directories completes directories of sets.
func Directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// Sweeps completes names of built-in sweeps, or else files.
func Sweeps(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, name := range results.Names() {
		if len(args) == 0 && strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// Profiles completes names of profiles, or else files, in a shell.
func Profiles(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range config.Profiles() {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name+"\t"+p.Summary)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
