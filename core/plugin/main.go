package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/runtime/rank"
	"transportbench/core/transport"
)

// Exit codes of a plugin binary.
const (
	exitOK       = 0
	exitInternal = 1
	exitUsage    = 2
	exitOrphaned = 3 // the host is gone
)

// Main is the main function of a plugin: it does what the command line asks for
// with driver, and ends the process.
func Main(driver transport.Driver) {
	Serve(driver, func(d transport.Driver) record.Control { return rank.New(d, slog.Default()) })
}

// Serve does what the command line asks for, with the ranks that newRank
// makes, one after the other, and ends the process. [Main] is what plugins
// call; this one is for those who bring a rank of their own.
func Serve(driver transport.Driver, newRank func(transport.Driver) record.Control) {
	os.Exit(serve(driver, newRank, os.Args[1:], os.Stdout, os.Stderr))
}

func serve(driver transport.Driver, newRank func(transport.Driver) record.Control, args []string, stdout, stderr io.Writer) int {
	is := func(words ...string) bool { return slices.Equal(args, words) }
	switch {
	case is("describe"):
		if _, err := fmt.Fprintf(stdout, "%s\n", Describe(driver).json()); err != nil {
			fmt.Fprintln(stderr, err)
			return exitInternal
		}
		return exitOK
	case is("help"), is("--help"), is("-h"):
		explain(stdout, driver.Info())
		return exitOK
	case is(), is("serve"):
		if os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
			explain(stderr, driver.Info())
			return exitUsage
		}
		return serveHost(newServer(driver, newRank))
	case is("serve", "--debug"):
		return serveDebug(context.Background(), driver.Info().Name, newServer(driver, newRank), stdout)
	case len(args) == 2 && args[0] == "micro":
		return micro(driver, args[1], stdout, stderr)
	default:
		fmt.Fprintf(stderr, "unknown arguments %q\n", args)
		explain(stderr, driver.Info())
		return exitUsage
	}
}

func newServer(driver transport.Driver, newRank func(transport.Driver) record.Control) *wire.Server {
	return wire.NewServer(Describe(driver).json(), func() record.Control { return newRank(driver) })
}

// explain tells a person who starts a plugin by hand what it is.
func explain(w io.Writer, info transport.Info) {
	fmt.Fprintf(w, `This is the transportbench plugin for the transport %q: %s
It is started by the command; try: transportbench run --transport %s
It also understands: describe, and for debuggers: serve --debug
`, info.Name, info.Summary, info.Name)
}
