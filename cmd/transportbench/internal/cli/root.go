package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/agents"
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/inspect"
	"transportbench/cmd/transportbench/internal/measure"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/study/perf"
	"transportbench/core/plugin/host"
)

// Main runs the command line args, without the program's name, and returns the
// exit code. The first interrupt ends a run and keeps its complete repeats; the
// second kills the process.
func Main(args []string, stdout, stderr io.Writer) int {
	if os.Getenv("GOGC") == "" {
		// Files of results may have hundreds of MB, and nothing is measured in this process.
		debug.SetGCPercent(50)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	defer host.End()
	log.SetOutput(printable.NewWriter(stderr)) // of libraries
	return Execute(ctx, &app.App{Program: os.Args[0], Args: args, Stdin: os.Stdin, Stdout: stdout,
		Stderr: stderr, Began: time.Now(), Run: runner.Run, Perf: perf.Find})
}

// Command returns the command with all its subcommands, to be described and not run.
func Command() *cobra.Command { return rootCommand((&app.App{Program: "transportbench"})) }

// Execute runs the command line of a.
func Execute(ctx context.Context, a *app.App) int {
	return a.Main(ctx, func() *cobra.Command { return rootCommand(a) })
}

func rootCommand(a *app.App) *cobra.Command {
	root := group("transportbench", "Compare RPC transports apples to apples",
		group("plugins", "List and show transports", pluginsListCommand(a),
			pluginsShowCommand(a)),
		group("profiles", "List and show named loads", profilesListCommand(a),
			profilesShowCommand(a)),
		group("replay", "Look at traces of requests", replayCheckCommand(a)),
		agents.Command(a), doctorCommand(a), versionCommand(a))
	root.AddCommand(measure.Commands(a)...)
	root.AddCommand(inspect.Commands(a)...)
	root.Long = `transportbench runs every transport with the same runtime and the same load.
Each result has the floor of the medium, measured in the same run, and checks of
its own trustworthiness.

Options come from flags, else from TRANSPORTBENCH_ variables (the flag's name in
capitals, underscores for hyphens), else from the file of --config or from
transportbench/config.yaml in the user's configuration directory, else from the
profile, else from defaults.

` + app.ExitHelp
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args)
		}
		return greet(a, cmd)
	}
	root.Version = core.Version + ", revision " + core.BuildRevision()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	options.AddCommon(root.PersistentFlags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(a, cmd, err)
	})
	root.InitDefaultCompletionCmd(a.Args...)
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		makeGroup(completion)
	}
	return root
}

// group returns a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(commands...)
	makeGroup(cmd)
	return cmd
}

// makeGroup lets cmd show its help when it is called alone, and suggest a name
// for an unknown command below it.
func makeGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args)
	}
}

// unknownCommand returns the error of a command that is not below cmd.
func unknownCommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return app.Usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(),
		suggestion(cmd, args[0], names))
}

// suggestion returns the end of a message about a wrong word: the nearest known
// word, if one is near, and where all are listed.
func suggestion(cmd *cobra.Command, word string, known []string) string {
	if near := suggest.For(word, known); near != "" {
		return near + " See " + cmd.CommandPath() + " --help"
	}
	return "; see " + cmd.CommandPath() + " --help"
}

// greet tells a newcomer which commands to type first.
func greet(a *app.App, cmd *cobra.Command) error {
	entries, err := catalog.Installed(cmd)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s %s: %s\n\n", cmd.Name(), core.Version, cmd.Short)
	if len(entries) == 0 {
		fmt.Fprintf(a.Stdout,
			"There are no transports yet. Build them first:\n\n  make build\n\nThen:\n\n")
	} else {
		fmt.Fprintf(a.Stdout, "Start with one of these:\n\n")
	}
	for _, first := range [][2]string{
		{"bench", "compare every transport, " + measure.BenchTakes},
		{"run --transport " + config.Default().Transport, "run one transport, a few seconds"},
		{"plugins list", "which transports there are, and when to choose each"},
		{"doctor", "what on this machine disturbs the numbers"},
		{"--help", "all commands"},
	} {
		fmt.Fprintf(a.Stdout, "  %s %-20s  %s\n", a.Program, first[0], first[1])
	}
	return nil
}

// flagError adds a remedy to the parser's error.
func flagError(a *app.App, cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint := suggestion(cmd, "--"+name, names)
		if suggest.For("--"+name, names) == "" {
			hint = cmp.Or(ownOption(a, cmd, name), hint)
		}
		return app.Usagef("unknown flag --%s%s", name, hint)
	}
	return app.Usagef("%s%s", strings.TrimSuffix(err.Error(), "."), suggestion(cmd, "", nil))
}

// ownOption returns the end of a message about an unknown flag that is nearly a transport's own
// option, if cmd takes such options.
func ownOption(a *app.App, cmd *cobra.Command, name string) string {
	if cmd.Flags().Lookup(options.KeySet) == nil {
		return ""
	}
	entries, err := catalog.Installed(cmd)
	if err != nil {
		return ""
	}
	owners := map[string]string{}
	for _, e := range entries {
		for _, o := range e.Description.Info.Options {
			owners[o.Name] += " " + e.Name
		}
	}
	names := slices.Sorted(maps.Keys(owners))
	hint := suggest.For(name, names)
	for _, option := range names {
		if strings.Contains(hint, strconv.Quote(option)) {
			of := strings.Fields(owners[option])
			return fmt.Sprintf(
				"; did you mean \"--set %s=...\", an option of %s? See %s plugins show %s", option,
				strings.Join(of, ", "), a.Program, of[0])
		}
	}
	return ""
}
