package cli

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
)

func (a *app) pluginsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the transports that are installed", Args: noArgs,
		Long: `list shows every plugin that it finds in --plugin-dir, in the directories of
TRANSPORTBENCH_PLUGIN_PATH and beside the executable, and whether it can run.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			entries, err := a.catalog(cmd.Context(), s.PluginDir)
			if err != nil {
				return err
			}
			list := make([]present.Plugin, len(entries))
			for i, e := range entries {
				list[i] = e.present()
			}
			if s.JSON {
				return writeJSON(a.stdout, list)
			}
			if len(list) == 0 {
				a.note("no plugins; build them (make build), or name their directory with --plugin-dir")
				return nil
			}
			present.Plugins(a.stdout, list)
			return nil
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func (a *app) pluginsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a transport's capabilities, limits and options",
		ValidArgsFunction: a.completeTransports,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("plugins show takes the name of one transport; plugins list has them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			e, err := a.findArgument(cmd.Context(), s.PluginDir, args[0])
			if err != nil {
				return err
			}
			if s.JSON {
				return writeJSON(a.stdout, e.present())
			}
			present.PluginDetails(a.stdout, e.present())
			return nil
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// completeTransports offers the names of the installed transports to a shell.
func (a *app) completeTransports(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.settings(cmd, nil, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	entries, err := a.catalog(cmd.Context(), s.PluginDir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name+"\t"+e.description.Info.Summary)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
