package cli

import (
	"cmp"
	"context"
	"encoding/json"
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

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core"
	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/perf"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// app is what the commands share.
type app struct {
	program        string // as the user typed it
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	began          time.Time
	verbose        bool

	// run is runner.Run, except in tests.
	run func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
	// perf is perf.Find, except in tests.
	perf func() (*perf.Perf, error)
}

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
	a := &app{program: os.Args[0], args: args, stdin: os.Stdin, stdout: stdout, stderr: stderr,
		began: time.Now(), run: runner.Run, perf: perf.Find}
	return a.main(ctx)
}

// Command returns the command with all its subcommands, to be described and not run.
func Command() *cobra.Command { return (&app{program: "transportbench"}).rootCommand() }

// checkedWriter keeps the first error of a writer, because tables are written
// without checking.
type checkedWriter struct {
	io.Writer
	err error
}

// Unwrap returns the writer that w writes to.
func (w *checkedWriter) Unwrap() io.Writer { return w.Writer }

func (w *checkedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

// safeWriter escapes what could command a terminal, and then fits and colours it for one.
type safeWriter struct {
	*printable.Writer
	terminal io.Writer
}

func screened(w io.Writer) safeWriter {
	shown := terminal.OnTerminal(w)
	return safeWriter{printable.NewWriter(shown), shown}
}

// Flush writes what is held back.
func (w safeWriter) Flush() {
	_ = w.Writer.Flush()
	if t, is := w.terminal.(*terminal.Terminal); is {
		_ = t.Flush()
	}
}

func (a *app) main(ctx context.Context) int {
	stdout, stderr := screened(a.stdout), screened(a.stderr)
	defer stdout.Flush()
	defer stderr.Flush()
	out := &checkedWriter{Writer: stdout}
	a.stdout, a.stderr = out, stderr
	root := a.rootCommand()
	root.SetArgs(a.args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, errServed) {
		err = nil
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("write to standard output: %w", out.err)
	}
	if err != nil {
		reportError(a.stderr, err, a.verbose)
	}
	return exitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := group("transportbench", "Compare RPC transports apples to apples",
		a.runCommand(), a.benchCommand(), a.sweepCommand(), a.diffCommand(), a.abCommand(),
		a.analyzeCommand(),
		a.reportCommand(), a.serveCommand(), a.historyCommand(), a.blessCommand(),
		a.exportCommand(), a.microCommand(), a.reproduceCommand(), a.stackCommand(), a.c2cCommand(),
		group("plugins", "List and show transports", a.pluginsListCommand(),
			a.pluginsShowCommand()),
		group("profiles", "List and show named loads", a.profilesListCommand(),
			a.profilesShowCommand()),
		a.agentCommand(), a.doctorCommand(), a.calibrateCommand(), a.versionCommand(),
		a.spinCommand())
	root.Long = `transportbench runs every transport with the same runtime and the same load, so
only the transport differs. Each result has the floor of the medium, measured in
the same run, and checks of its own trustworthiness.

Options come from flags, else from TRANSPORTBENCH_ variables (the flag's name in
capitals, underscores for hyphens), else from the file of --config or from
transportbench/config.yaml in the user's configuration directory, else from the
profile, else from defaults.

` + exitHelp
	root.SilenceErrors, root.SilenceUsage = true, true
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args)
		}
		return a.greet(cmd)
	}
	root.Version = core.Version + ", revision " + core.BuildRevision()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	options.AddCommon(root.PersistentFlags())
	root.SetFlagErrorFunc(a.flagError)
	root.InitDefaultCompletionCmd(a.args...)
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

func unknownCommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(),
		suggestion(cmd, args[0], names))
}

// greet tells a newcomer which commands to type first.
func (a *app) greet(cmd *cobra.Command) error {
	entries, err := a.installed(cmd)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s %s: %s\n\n", cmd.Name(), core.Version, cmd.Short)
	if len(entries) == 0 {
		fmt.Fprintf(a.stdout,
			"There are no transports yet. Build them first:\n\n  make build\n\nThen:\n\n")
	} else {
		fmt.Fprintf(a.stdout, "Start with one of these:\n\n")
	}
	for _, first := range [][2]string{
		{"bench", "compare every transport, " + benchTakes},
		{"run --transport shm", "run one transport, a few seconds"},
		{"plugins list", "which transports there are, and when to choose each"},
		{"doctor", "what on this machine disturbs the numbers"},
		{"--help", "all commands"},
	} {
		fmt.Fprintf(a.stdout, "  %s %-20s  %s\n", a.program, first[0], first[1])
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		return usagef("%s takes no arguments, got %q%s", cmd.Name(), args[0],
			transport.SuggestionFor(args[0], names))
	}
	return nil
}

// takes returns the check of a command's arguments: at least least, and at most
// most unless that is 0.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return usagef("%s takes %s, got %s; see %s --help", cmd.Name(), what,
				format.Count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}

// flagError adds a remedy to the parser's error.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint := suggestion(cmd, "--"+name, names)
		if transport.SuggestionFor("--"+name, names) == "" {
			hint = cmp.Or(a.ownOption(cmd, name), hint)
		}
		return usagef("unknown flag --%s%s", name, hint)
	}
	return usagef("%s%s", strings.TrimSuffix(err.Error(), "."), suggestion(cmd, "", nil))
}

// ownOption returns the end of a message about an unknown flag that is nearly a transport's own
// option, if cmd takes such options.
func (a *app) ownOption(cmd *cobra.Command, name string) string {
	if cmd.Flags().Lookup(options.KeySet) == nil {
		return ""
	}
	entries, err := a.installed(cmd)
	if err != nil {
		return ""
	}
	owners := map[string]string{}
	for _, e := range entries {
		for _, o := range e.description.Info.Options {
			owners[o.Name] += " " + e.Name
		}
	}
	names := slices.Sorted(maps.Keys(owners))
	hint := transport.SuggestionFor(name, names)
	for _, option := range names {
		if strings.Contains(hint, strconv.Quote(option)) {
			of := strings.Fields(owners[option])
			return fmt.Sprintf(
				"; did you mean \"--set %s=...\", an option of %s? See %s plugins show %s", option,
				strings.Join(of, ", "), a.program, of[0])
		}
	}
	return ""
}

// suggestion returns the end of a message about a wrong word: the nearest known
// word, if one is near, and where all are listed.
func suggestion(cmd *cobra.Command, word string, known []string) string {
	if near := transport.SuggestionFor(word, known); near != "" {
		return near + " See " + cmd.CommandPath() + " --help"
	}
	return "; see " + cmd.CommandPath() + " --help"
}

// withSettings returns the function of a command that needs its options
// resolved.
func (a *app) withSettings(run func(cmd *cobra.Command, s *options.Settings,
	args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.settings(cmd, cmd.Flags(), nil, nil)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// settings resolves flags, which are some or all of a command's. It also sets
// how verbose errors are from here on.
func (a *app) settings(cmd *cobra.Command, flags *pflag.FlagSet,
	defaults, fixed map[string]string) (*options.Settings, error) {
	if f := cmd.Flags().Lookup(options.KeyVerbose); f != nil && f.Changed {
		a.verbose = f.Value.String() == "true" // also for errors of Resolve
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

// note writes a line to standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "transportbench: %s\n", printable.Text(fmt.Sprintf(format, args...)))
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
