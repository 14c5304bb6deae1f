package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"transportbench/core/lab/report"
)

const defaultPort = 8420

func (a *app) serveCommand() *cobra.Command {
	f, port, every := new(reportFlags), 0, time.Duration(0)
	cmd := &cobra.Command{
		Use: "serve SET", Short: "Show a set of results in a browser, and follow it while it grows",
		Long: `serve shows what report draws, on the loopback interface alone. New results appear
by themselves, so that a running sweep can be watched: give it the directory that
the sweep writes to. Reading them takes processor time, which a measurement on the
same processors notices; a longer --every disturbs less. Ctrl-C ends it.

` + exitHelp,
		Example: `  transportbench serve results/local/sweep-matrix
  transportbench serve results/local --port 0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s takes one set of results, and got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := a.settings(cmd, nil, nil); err != nil {
				return err
			}
			o, err := f.options()
			if err != nil {
				return err
			}
			if every < minEvery || port < 0 || port > 65535 {
				return usagef("--every must be at least %v and --port from 0 to 65535", minEvery)
			}
			server, err := report.NewServer(cmd.Context(), args[0], o, every)
			if err != nil {
				return badInput(err)
			}
			listener, err := report.Listen(port)
			if err != nil {
				return usagef("--port: %v", err)
			}
			fmt.Fprintf(a.stdout, "http://%s/\n", listener.Addr())
			a.note("Ctrl-C ends it")
			return server.Serve(cmd.Context(), listener)
		},
	}
	cmd.Flags().IntVar(&port, "port", defaultPort, "port on the loopback interface; 0 is any that is free")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "how often to look for new results")
	f.add(cmd)
	return cmd
}

// minEvery keeps a server from doing nothing but looking.
const minEvery = 100 * time.Millisecond
