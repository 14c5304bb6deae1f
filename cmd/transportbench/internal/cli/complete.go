package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
	"transportbench/results"
)

// addCompletion completes the values of the flags of a command that runs transports.
func (a *app) addCompletion(cmd *cobra.Command) {
	// These fail only if the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc(options.KeyTransport, a.completeTransports)
	_ = cmd.RegisterFlagCompletionFunc(options.KeySet, a.completeSet)
	if cmd.Flags().Lookup("profile") != nil {
		_ = cmd.RegisterFlagCompletionFunc("profile", completeProfiles)
	}
	for _, f := range config.Fields() {
		// its values may be files
		if f.Name != "profile" && f.Name != "value-size" && cmd.Flags().Lookup(f.Name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				cobra.FixedCompletions(f.Examples, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// completeTransports completes names of installed transports.
func (a *app) completeTransports(cmd *cobra.Command, _ []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	entries, err := a.installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name+"\t"+e.description.Info.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeMicro completes the name of a transport, and then its measurements and the one that all
// have.
func (a *app) completeMicro(cmd *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeTransports(cmd, args, begun)
	}
	entries, err := a.installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := []string{record.MicroSetup + "\tsetting up and closing, again and again"}
	for _, e := range entries {
		if e.Name == args[0] {
			names = append(names, e.description.Microbenchmarks...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(args[1:], name)
	}), cobra.ShellCompDirectiveNoFileComp
}

// installed returns the installed transports for a command line that need not be complete.
func (a *app) installed(cmd *cobra.Command) ([]*entry, error) {
	dir := ""
	if f := cmd.Flags().Lookup(options.KeyPluginDir); f != nil {
		dir = f.Value.String()
	}
	return a.catalog(cmd.Context(), dir)
}

// completeSet completes "key=value" with the own options of the transports of --transport, or of
// the transport that is the argument, or of all.
func (a *app) completeSet(cmd *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	entries, err := a.installed(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var wanted []string
	if f := cmd.Flags().Lookup(options.KeyTransport); f != nil && f.Value.String() != "" &&
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
		for _, o := range e.description.Info.Options {
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

// completeMetrics completes a comma list of metrics, or "all".
func completeMetrics(_ *cobra.Command, _ []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	names := metricNames(begun)
	if !strings.Contains(begun, ",") {
		names = append(names, "all")
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeColumns completes a comma list of metrics and options.
func completeColumns(_ *cobra.Command, _ []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	names := metricNames(begun)
	first := begun[:strings.LastIndexByte(begun, ',')+1]
	for _, f := range config.Fields() {
		names = append(names, first+f.Name+"\t"+f.Help)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSide completes the last option of a side of ab.
func completeSide(_ *cobra.Command, _ []string, begun string) (names []string,
	_ cobra.ShellCompDirective) {
	first := begun[:strings.LastIndexByte(begun, ' ')+1]
	for _, f := range config.Fields() {
		names = append(names, first+f.Name+"=\t"+f.Help)
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeFollowed completes a comma list of metrics.
func completeFollowed(_ *cobra.Command, _ []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	return metricNames(begun), cobra.ShellCompDirectiveNoFileComp
}

// completeMetric completes the name of one metric.
func completeMetric(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return metricNames(""), cobra.ShellCompDirectiveNoFileComp
}

// metricNames returns all metrics behind the complete ones of a list that is begun, with their
// meanings.
func metricNames(begun string) (names []string) {
	first := begun[:strings.LastIndexByte(begun, ',')+1]
	for _, d := range result.Definitions {
		names = append(names, first+d.Name+"\t"+d.Help)
	}
	return names
}

// completeAxes completes the options that differ between the cells of the set that is the argument,
// or the options of every run.
func completeAxes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := config.Names()
	if len(args) > 0 {
		if s, err := set.Load(args[0]); err == nil {
			names = set.Varying(s.Cells)
		}
	}
	return append([]string{options.KeyTransport}, names...), cobra.ShellCompDirectiveNoFileComp
}

// completeResults completes directories and files of results.
func completeResults(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeDirectories completes directories of sets.
func completeDirectories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func completeOneDirectory(_ *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeSweeps completes names of built-in sweeps, or else files.
func completeSweeps(_ *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	var names []string
	for _, name := range results.Names() {
		if len(args) == 0 && strings.HasPrefix(name, begun) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
