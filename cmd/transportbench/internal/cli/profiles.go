package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

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

func (a *app) profilesListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the built-in profiles", Args: noArgs,
		RunE: a.withSettings(func(_ *cobra.Command, s *options.Settings, _ []string) error {
			if !s.JSON {
				terminal.Print(a.stdout, listing.Profiles(config.Profiles()))
				return nil
			}
			var list []profile
			for _, p := range config.Profiles() {
				list = append(list, profile{p.Name, p.Summary, p.Set})
			}
			return writeJSON(a.stdout, list)
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func (a *app) profilesShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Print a profile as a file to edit",
		Long: `show prints the options of a profile as YAML, with the help of every option. Edit
it and use it with --profile FILE.yaml. NAME may also be such a file, which show
then checks.`,
		Example: `  transportbench profiles show kvcache > mine.yaml
  transportbench run --profile mine.yaml`,
		ValidArgsFunction: completeProfiles,
		Args:              takes(1, 1, "the name of one profile (profiles list has them)"),
		RunE: a.withSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			p, err := options.FindProfile(args[0])
			var wrong *config.Error
			if errors.As(err, &wrong) { // it names a flag
				return usagef("%s", wrong.Problem)
			}
			if err != nil {
				return err
			}
			if !s.JSON {
				return options.WriteProfile(a.stdout, p)
			}
			if _, err := options.ProfileConfig(p); err != nil {
				return err
			}
			return writeJSON(a.stdout, profile{p.Name, p.Summary, p.Set})
		}),
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// completeProfiles completes names of profiles, or else files, in a shell.
func completeProfiles(_ *cobra.Command, _ []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	var names []string
	for _, p := range config.Profiles() {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name+"\t"+p.Summary)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
