package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/core/base/machine"
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

// Main is the main function of a program with one or more plugins. It runs the command line as the
// plugin transport-NAME if the program was started under that name, and ends the process. A program
// with one plugin may have any name.
func Main(drivers ...transport.Driver) {
	driver, err := named(os.Args[0], drivers)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUsage)
	}
	go machine.ShareCalibrated() // it takes 10 ms, in which the host connects
	Serve(driver, func(d transport.Driver) record.Control { return rank.New(d, slog.Default()) })
}

func named(program string, drivers []transport.Driver) (transport.Driver, error) {
	if len(drivers) == 1 {
		return drivers[0], nil
	}
	names := make([]string, len(drivers))
	for i, d := range drivers {
		if names[i] = "transport-" + d.Info().Name; names[i] == filepath.Base(program) {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s contains several plugins: run it by the name of one of them, "+
		"%s", program, strings.Join(names, ", "))
}

// Serve is [Main] with ranks that newRank makes, one at a time.
func Serve(driver transport.Driver, newRank func(transport.Driver) record.Control) {
	os.Exit(serve(driver, newRank, os.Args[1:], os.Stdout, os.Stderr))
}

func serve(driver transport.Driver, newRank func(transport.Driver) record.Control, args []string,
	stdout, stderr io.Writer) int {
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
		return serveDebug(context.Background(), driver.Info().Name, newServer(driver, newRank),
			stdout)
	case len(args) == 2 && args[0] == "micro":
		return micro(driver, args[1], stdout, stderr)
	default:
		fmt.Fprintf(stderr, "unknown arguments %q\n", args)
		explain(stderr, driver.Info())
		return exitUsage
	}
}

func newServer(driver transport.Driver,
	newRank func(transport.Driver) record.Control) *wire.Server {
	return wire.NewServer(Describe(driver).json(), func() record.Control { return newRank(driver) })
}

// explain prints what a plugin is, for users who start it by hand.
func explain(w io.Writer, info transport.Info) {
	fmt.Fprintf(w, `This is the transportbench plugin for the transport %q: %s
It is started by the command; try: transportbench run --transport %s
It also understands: describe, and for debuggers: serve --debug
`, info.Name, info.Summary, info.Name)
}
