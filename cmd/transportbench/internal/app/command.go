package app

import (
	"github.com/spf13/cobra"

	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/store/format"
)

// Group returns a command that only holds others.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(commands...)
	MakeGroup(cmd)
	return cmd
}

// MakeGroup lets cmd show its help when it is called alone, and suggest a name
// for an unknown command below it.
func MakeGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return UnknownCommand(cmd, args)
	}
}

// UnknownCommand returns the error of a command that is not below cmd.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return Usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(),
		Suggestion(cmd, args[0], names))
}

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

// Takes returns the check of a command's arguments: at least least, and at most
// most unless that is 0.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return Usagef("%s takes %s, got %s; see %s --help", cmd.Name(), what,
				format.Count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}

// Suggestion returns the end of a message about a wrong word: the nearest known
// word, if one is near, and where all are listed.
func Suggestion(cmd *cobra.Command, word string, known []string) string {
	if near := suggest.For(word, known); near != "" {
		return near + " See " + cmd.CommandPath() + " --help"
	}
	return "; see " + cmd.CommandPath() + " --help"
}
