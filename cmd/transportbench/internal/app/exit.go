package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// The exit codes of every command.
const (
	ExitOK         = 0
	ExitInternal   = 1 // also a transport that cannot run here
	ExitUsage      = 2
	ExitRegression = 3
	// a threshold is exceeded, a check of a result failed, or a plugin reported an impossible value
	ExitThreshold    = 4
	ExitIncomparable = 5
	ExitTooLittle    = 6
	ExitInterrupted  = 130
)

// ExitHelp explains the exit codes at the end of a help text.
const ExitHelp = `Exit codes: 0 success; 1 internal error, or a transport that cannot run here;
2 wrong usage or configuration; 3 regression; 4 threshold or check failed, or a
plugin reports an impossible value; 5 incomparable, for example a plugin built
from another runtime; 6 too little data; 130 interrupted.`

// ErrServed ends a command that only was an agent of the same command in another task.
var ErrServed = errors.New("the run is another task's")

// exitError is an error with an exit code of its own. The command may have
// written its output all the same.
type exitError struct {
	code    int
	problem string
}

func (e *exitError) Error() string { return e.problem }

// Exitf returns an error that ends the command with an exit code.
func Exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

// Usagef returns the error of wrong usage.
func Usagef(format string, args ...any) error { return Exitf(ExitUsage, format, args...) }

// BadInput reports a file that the user named and that has no results.
func BadInput(err error) error { return Usagef("%s", printable.Joined(err)) }

// BadOutput reports that the file of a flag cannot be written. Other errors of writing it stay as
// they are.
func BadOutput(flag string, err error) error {
	var failed *files.WriteError
	if errors.As(err, &failed) && !errors.Is(err, context.Canceled) {
		return Usagef("%s: %s", flag, printable.Joined(err))
	}
	return err
}

// ExitCode returns the exit code for the error of a command.
func ExitCode(err error) int {
	var (
		exit     *exitError
		source   *config.SourceError
		option   *config.Error
		own      *transport.OptionError
		identity *compare.IdentityError
		nothing  *compare.UnmatchedError
		meaning  *compare.MeaningError
		invalid  *record.InvalidError
		limit    *runner.LimitError
		exposed  *files.ExposedError
		setup    *host.SetupError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &invalid):
		return ExitThreshold
	case errors.As(err, &source), errors.As(err, &option), errors.As(err, &own),
		errors.As(err, &exposed), errors.As(err, &setup), errors.As(err, &limit) &&
			limit.Err == nil:
		return ExitUsage
	case errors.Is(err, host.ErrMixedRuntime), errors.As(err, &identity), errors.As(err, &nothing),
		errors.As(err, &meaning):
		return ExitIncomparable
	default:
		return ExitInternal
	}
}

// reportError writes an error in one line. With verbose, the chain of errors
// that it wraps follows.
func reportError(w io.Writer, err error, verbose bool) {
	if errors.Is(err, context.Canceled) && !verbose {
		fmt.Fprintln(w, "transportbench: interrupted")
		return
	}
	fmt.Fprintf(w, "transportbench: %s\n", printable.Joined(err))
	if verbose {
		chain(w, err, 1)
	}
}

// chain writes err and the errors that it wraps with their types, and the last
// output of a plugin that died.
func chain(w io.Writer, err error, depth int) {
	indent := strings.Repeat("  ", depth)
	fmt.Fprintf(w, "%s%T: %s\n", indent, err, printable.Joined(err))
	if died, ok := err.(*record.ExitError); ok { //nolint:errorlint // only this link of the chain
		for _, line := range died.Output {
			fmt.Fprintf(w, "%s  | %s\n", indent, line)
		}
	}
	switch wrapper := err.(type) { //nolint:errorlint // only this link of the chain
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			chain(w, inner, depth+1)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			chain(w, inner, depth+1)
		}
	}
}
