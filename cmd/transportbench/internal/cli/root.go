package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/lab/result"
	"transportbench/core/lab/runner"
	"transportbench/core/transport"
)

// app is what the commands share.
type app struct {
	program        string // as it was typed
	args           []string
	stdout, stderr io.Writer
	began          time.Time
	verbose        bool

	// run is runner.Run, but for tests.
	run func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
}

// Main runs the command line args, the program's name left out, and returns the
// exit code. The first interrupt ends a run and keeps what is complete; the
// second kills the process.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{program: os.Args[0], args: args, stdout: stdout, stderr: stderr, began: time.Now(), run: runner.Run}
	return a.main(ctx)
}

// checkedWriter keeps the first error of a writer, so that tables, which are
// written without looking, are not lost in silence.
type checkedWriter struct {
	io.Writer
	err error
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func (a *app) main(ctx context.Context) int {
	out := &checkedWriter{Writer: a.stdout}
	a.stdout = out
	root := a.rootCommand()
	root.SetArgs(a.args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil && out.err != nil {
		err = fmt.Errorf("write to standard output: %w", out.err)
	}
	if err != nil {
		reportError(a.stderr, err, a.verbose)
	}
	return exitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "transportbench",
		Short: "Compare RPC transports apples to apples",
		Long: `transportbench drives every transport with the same runtime and the same load,
so that only the transport differs. Each number comes with the floor of the
medium, measured in the same run, and with checks of its own trustworthiness.

Options come from flags, else from TRANSPORTBENCH_ variables (the flag's name in
capitals, underscores for hyphens), else from the file that --config names or
from transportbench/config.yaml in the user's configuration directory, else from
the profile, else from the defaults.

` + exitHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	options.AddCommon(root.PersistentFlags())
	group(root)
	plugins := &cobra.Command{Use: "plugins", Short: "List and show transports"}
	group(plugins)
	plugins.AddCommand(a.pluginsListCommand(), a.pluginsShowCommand())
	root.AddCommand(a.runCommand(), a.benchCommand(), a.sweepCommand(), a.diffCommand(), a.abCommand(), a.analyzeCommand(), a.reportCommand(), a.serveCommand(), a.exportCommand(), a.microCommand(),
		plugins, a.profilesCommand(), a.doctorCommand(), a.versionCommand())
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd(a.args...)
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		group(completion)
	}
	return root
}

// group makes cmd one that only holds others: alone it shows its help, and an
// unknown name below it is an error with the near miss.
func group(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), suggestion(cmd, args[0], names))
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, and got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// flagError turns the parser's errors into ones that name the remedy.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return usagef("unknown flag --%s%s", name, suggestion(cmd, "--"+name, names))
	}
	return usagef("%s%s", strings.TrimSuffix(err.Error(), "."), suggestion(cmd, "", nil))
}

// suggestion ends a line on a wrong word: the near miss, where there is one, and
// where the right ones are listed.
func suggestion(cmd *cobra.Command, word string, known []string) string {
	if near := transport.SuggestionFor(word, known); near != "" {
		return near + " See " + cmd.CommandPath() + " --help"
	}
	return "; see " + cmd.CommandPath() + " --help"
}

// settings resolves the options of a command. From here on errors are as
// verbose as the user wants them.
func (a *app) settings(cmd *cobra.Command, defaults, fixed map[string]string) (*options.Settings, error) {
	return a.settingsOf(cmd, cmd.Flags(), defaults, fixed)
}

// settingsOf is settings of some of a command's flags.
func (a *app) settingsOf(cmd *cobra.Command, flags *pflag.FlagSet, defaults, fixed map[string]string) (*options.Settings, error) {
	if f := cmd.Flags().Lookup(options.KeyVerbose); f != nil && f.Changed {
		a.verbose = f.Value.String() == "true"
	}
	s, err := options.Resolve(flags, defaults, fixed)
	if err != nil {
		return nil, err
	}
	a.verbose = s.Verbose
	if a.verbose && s.File != "" {
		a.note("options from %s", s.File)
	}
	return s, nil
}
