package app

import (
	"github.com/spf13/cobra"

	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/store/format"
)

// NoArgs is the check of a command without arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return Usagef("%s takes no arguments, got %q%s", cmd.Name(), args[0],
			suggest.For(args[0], names))
	}
	return nil
}

// Takes returns the check of a command's arguments: at least low, and at most high unless that is
// 0.
func Takes(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || high > 0 && len(args) > high {
			return Usagef("%s takes %s, got %s; see %s --help", cmd.Name(), what,
				format.Count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}
