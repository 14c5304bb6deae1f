package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/trace"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/perf"
)

// App is what the commands share.
type App struct {
	Program        string // as the user typed it
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Began          time.Time
	Verbose, Quiet bool

	// Run is runner.Run, except in tests.
	Run func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
	// Perf is perf.Find, except in tests.
	Perf func() (*perf.Perf, error)
}

// CheckedWriter keeps the first error of a writer, because tables are written
// without checking.
type CheckedWriter struct {
	io.Writer
	Err error
}

// Unwrap returns the writer that w writes to.
func (w *CheckedWriter) Unwrap() io.Writer { return w.Writer }

// Write implements [io.Writer].
func (w *CheckedWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.Err == nil {
		w.Err = err
	}
	return n, err
}

// safeWriter escapes what could command a terminal, and then fits it for one.
type safeWriter struct {
	*printable.Writer
	terminal io.Writer
}

func screened(w io.Writer) safeWriter {
	shown := terminal.OnTerminal(w)
	return safeWriter{printable.NewWriter(shown), shown}
}

// Flush writes what is held back.
func (w safeWriter) Flush() error {
	err := w.Writer.Flush()
	if t, is := w.terminal.(*terminal.Terminal); is {
		err = cmp.Or(err, t.Flush())
	}
	return err
}

// Main runs the command that root returns, and returns the exit code.
func (a *App) Main(ctx context.Context, root func() *cobra.Command) int {
	stdout, stderr := screened(a.Stdout), screened(a.Stderr)
	defer func() { _ = stderr.Flush() }()
	out := &CheckedWriter{Writer: stdout}
	a.Stdout, a.Stderr = out, stderr
	options.Traces = trace.NewCache(a.Stdin)
	cmd := root()
	cmd.SetArgs(a.Args)
	cmd.SetOut(a.Stdout)
	cmd.SetErr(a.Stderr)
	err := cmd.ExecuteContext(ctx)
	if errors.Is(err, ErrServed) {
		err = nil
	}
	if lost := cmp.Or(out.Err, stdout.Flush()); err == nil && lost != nil {
		err = fmt.Errorf("write to standard output: %w", lost)
	}
	if err != nil {
		reportError(a.Stderr, err, a.Verbose)
	}
	return ExitCode(err)
}

// WithSettings returns the function of a command that needs its options
// resolved.
func (a *App) WithSettings(run func(cmd *cobra.Command, s *options.Settings,
	args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := a.Settings(cmd, cmd.Flags(), nil, nil)
		if err != nil {
			return err
		}
		return run(cmd, s, args)
	}
}

// Settings resolves flags, which are some or all of a command's. It also sets
// how verbose errors are from here on.
func (a *App) Settings(cmd *cobra.Command, flags *pflag.FlagSet,
	defaults, fixed map[string]string) (*options.Settings, error) {
	if f := cmd.Flags().Lookup(options.KeyVerbose); f != nil && f.Changed {
		a.Verbose = f.Value.String() == "true" // also for errors of Resolve
	}
	s, err := options.Resolve(flags, defaults, fixed)
	if err != nil {
		return nil, err
	}
	a.Verbose, a.Quiet = s.Verbose, s.Quiet
	if a.Verbose && s.File != "" {
		a.Note("options from %s", s.File)
	}
	return s, nil
}

// Print writes a document to standard output: a summary, or with -v all of it.
func (a *App) Print(d *doc.Doc) {
	switch {
	case a.Quiet:
		d = d.Folded("")
	case !a.Verbose:
		d = d.Folded("-v")
	}
	a.Warn(a.Stdout, d)
}

// Warn writes failed checks to w. A user who wants only results and errors gets the errors among
// them.
func (a *App) Warn(w io.Writer, d *doc.Doc) {
	if a.Quiet {
		d = d.WithoutWarnings()
	}
	terminal.Print(w, d)
}

// Progress returns what progress is written to.
func (a *App) Progress() io.Writer {
	if a.Quiet {
		return io.Discard
	}
	return a.Stderr
}

// Note writes a line to standard error, unless the user wants only results and errors.
func (a *App) Note(format string, args ...any) {
	if a.Quiet {
		return
	}
	fmt.Fprintf(a.Stderr, "transportbench: %s\n", printable.Text(fmt.Sprintf(format, args...)))
}

// WriteJSON writes v as a document of JSON that people can read, too.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
