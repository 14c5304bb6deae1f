package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/cli"
)

// Every command has a page with every word of its help and of its flags.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, write(dir))
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	require.NoError(t, err)
	described := 0
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		described++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+
			".1"))
		require.NoError(t, err)
		page := strings.ReplaceAll(string(text), `\`, "")
		help := cmd.Short + " " + cmd.Long + " " + cmd.Example
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				help += " --" + f.Name + " " + f.Usage
			}
		})
		if strings.Contains(cmd.CommandPath(), completion) {
			help = cmd.Short
		}
		for _, word := range strings.Fields(strings.NewReplacer("`", "", `\`, "").Replace(help)) {
			require.Contains(t, page, word, "%s", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(cli.Command())
	require.Len(t, pages, described)
	require.Greater(t, described, 10)
}
