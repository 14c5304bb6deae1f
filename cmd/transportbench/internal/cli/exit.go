package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/compare"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

// The exit codes of every command.
const (
	ExitOK           = 0
	ExitInternal     = 1 // also a transport that cannot run here
	ExitUsage        = 2
	ExitRegression   = 3
	ExitThreshold    = 4 // also a result whose checks say that it must not be used
	ExitIncomparable = 5
	ExitTooLittle    = 6
	ExitInterrupted  = 130
)

const exitHelp = `Exit codes: 0 fine; 1 internal error, or a transport that cannot run here;
2 wrong usage or configuration; 3 regression; 4 threshold or check failed;
5 incomparable, as a plugin built from another runtime is; 6 too little data;
130 interrupted.`

// usageError is a mistake on the command line that no option is to blame for.
type usageError struct{ problem string }

func (e *usageError) Error() string { return e.problem }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// distrustError is a result whose checks failed. The numbers were written and
// shown all the same.
type distrustError struct{ problem string }

func (e *distrustError) Error() string { return e.problem }

// regressionError is a comparison in which something became worse,
// incomparableError one that cannot be made, and tooLittleError one that needs
// more repeats.
type (
	regressionError   struct{ problem string }
	incomparableError struct{ problem string }
	tooLittleError    struct{ problem string }
)

func (e *regressionError) Error() string   { return e.problem }
func (e *incomparableError) Error() string { return e.problem }
func (e *tooLittleError) Error() string    { return e.problem }

// exitCode returns the code for what a command returned.
func exitCode(err error) int {
	var (
		usage    *usageError
		option   *options.Error
		setting  *config.Error
		own      *transport.OptionError
		distrust *distrustError
		worse    *regressionError
		apart    *incomparableError
		identity *compare.IdentityError
		nothing  *compare.UnmatchedError
		few      *tooLittleError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &usage), errors.As(err, &option), errors.As(err, &setting), errors.As(err, &own):
		return ExitUsage
	case errors.As(err, &worse):
		return ExitRegression
	case errors.As(err, &few):
		return ExitTooLittle
	case errors.Is(err, host.ErrMixedRuntime), errors.As(err, &apart), errors.As(err, &identity), errors.As(err, &nothing):
		return ExitIncomparable
	case errors.As(err, &distrust):
		return ExitThreshold
	default:
		return ExitInternal
	}
}

// reportError writes an error in one line, and with verbose all that is behind it.
func reportError(w io.Writer, err error, verbose bool) {
	if errors.Is(err, context.Canceled) && !verbose {
		fmt.Fprintln(w, "transportbench: interrupted")
		return
	}
	fmt.Fprintf(w, "transportbench: %s\n", oneLine(err))
	if verbose {
		chain(w, err, 1)
	}
}

func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// chain writes the errors that err wraps, each with its type, and what a plugin
// wrote before it died.
func chain(w io.Writer, err error, depth int) {
	indent := strings.Repeat("  ", depth)
	fmt.Fprintf(w, "%s%T: %s\n", indent, err, oneLine(err))
	if died, ok := err.(*record.ExitError); ok { //nolint:errorlint // this link of the chain alone
		for _, line := range died.Output {
			fmt.Fprintf(w, "%s  | %s\n", indent, line)
		}
	}
	switch wrapper := err.(type) { //nolint:errorlint // this link of the chain alone
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
