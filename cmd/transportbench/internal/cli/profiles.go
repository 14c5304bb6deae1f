package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/config"
)

func (a *app) profilesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "profiles", Short: "List and show the named loads"}
	group(cmd)
	cmd.AddCommand(a.profilesListCommand(), a.profilesShowCommand())
	return cmd
}

// profile is a profile in JSON.
type profile struct {
	Name    string            `json:"name"`
	Summary string            `json:"summary"`
	Options map[string]string `json:"options"`
}

func (a *app) profilesListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the profiles that are built in", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			var list []profile
			for _, p := range config.Profiles() {
				list = append(list, profile{p.Name, p.Summary, p.Set})
			}
			if s.JSON {
				return writeJSON(a.stdout, list)
			}
			present.Profiles(a.stdout, config.Profiles())
			return nil
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

func (a *app) profilesShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Write a profile as a file that can be changed and given back",
		Long: `show writes the options of a profile as YAML, with the help of every option, on
standard output. Change it, and give it back with --profile FILE.yaml. NAME may
be such a file too, which is then checked.`,
		Example: `  transportbench profiles show kvcache > mine.yaml
  transportbench run --profile mine.yaml`,
		ValidArgsFunction: completeProfiles,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("profiles show takes the name of one profile; profiles list has them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd, nil, nil)
			if err != nil {
				return err
			}
			p, err := options.FindProfile(args[0])
			var wrong *config.Error
			if errors.As(err, &wrong) { // which blames a flag
				return usagef("%s", wrong.Problem)
			}
			if err != nil {
				return err
			}
			if _, err := p.Config(); err != nil {
				return err
			}
			if s.JSON {
				return writeJSON(a.stdout, profile{p.Name, p.Summary, p.Set})
			}
			return p.WriteYAML(a.stdout)
		},
	}
	options.AddJSON(cmd.Flags())
	return cmd
}

// completeProfiles offers the names of profiles to a shell, or else files.
func completeProfiles(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range config.Profiles() {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name+"\t"+p.Summary)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
