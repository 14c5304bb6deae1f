package cli

import (
	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
)

func pluginsListCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the installed transports", Args: app.NoArgs,
		Long: `list shows every plugin in --plugin-dir, in the directories of
TRANSPORTBENCH_PLUGIN_PATH and beside the executable, and whether it can run.`,
		RunE: a.WithSettings(func(cmd *cobra.Command, s *options.Settings, _ []string) error {
			entries, err := catalog.All(cmd.Context(), s.PluginDir)
			if err != nil {
				return err
			}
			list := make([]listing.Plugin, len(entries))
			for i, e := range entries {
				list[i] = e.Listed()
			}
			switch {
			case s.JSON:
				return app.WriteJSON(a.Stdout, list)
			case len(list) == 0:
				a.Note(catalog.NoPlugins)
			default:
				terminal.Print(a.Stdout, listing.Plugins(list))
			}
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func pluginsShowCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a transport's capabilities, limits and options",
		Long: `show describes a transport. It opens the transport once with its default options,
without peers, so that the transport itself says what it takes on this machine
for options such as auto, and why.`,
		ValidArgsFunction: complete.Transports,
		Args:              app.Takes(1, 1, "the name of one transport (plugins list has them)"),
		RunE: a.WithSettings(func(cmd *cobra.Command, s *options.Settings, args []string) error {
			e, err := catalog.FindOne(cmd.Context(), s.PluginDir, args[0])
			if err != nil {
				return err
			}
			shown := e.Listed()
			shown.Trial = e.Try(cmd.Context())
			if s.JSON {
				return app.WriteJSON(a.Stdout, shown)
			}
			terminal.Print(a.Stdout, listing.PluginDetails(shown))
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}
