package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/listing"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
)

// profile is a profile in JSON.
type profile struct {
	Name    string            `json:"name"`
	Summary string            `json:"summary"`
	Options map[string]string `json:"options"`
}

func profilesListCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the built-in profiles", Args: app.NoArgs,
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, _ []string) error {
			if !s.JSON {
				terminal.Print(a.Stdout, listing.Profiles(config.Profiles()))
				return nil
			}
			var list []profile
			for _, p := range config.Profiles() {
				list = append(list, profile{p.Name, p.Summary, p.Set})
			}
			return app.WriteJSON(a.Stdout, list)
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func profilesShowCommand(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Print a profile as a file to edit",
		Long: `show prints the options of a profile as YAML, with the help of every option. Edit
it and use it with --profile FILE.yaml. NAME may also be such a file, which show
then checks.`,
		Example: `  transportbench profiles show kvcache > mine.yaml
  transportbench run --profile mine.yaml`,
		ValidArgsFunction: complete.Profiles,
		Args:              app.Takes(1, 1, "the name of one profile (profiles list has them)"),
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			p, err := options.FindProfile(args[0])
			var wrong *config.Error
			if errors.As(err, &wrong) { // it names a flag
				return app.Usagef("%s", wrong.Problem)
			}
			if err != nil {
				return err
			}
			if !s.JSON {
				return options.WriteProfile(a.Stdout, p)
			}
			if _, err := options.ProfileConfig(p); err != nil {
				return err
			}
			return app.WriteJSON(a.Stdout, profile{p.Name, p.Summary, p.Set})
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}
