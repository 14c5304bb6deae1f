package agents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/printable"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/judge/doctor"
	"transportbench/core/plugin/agent"
	"transportbench/core/plugin/host"
)

// joinPatience is how long an agent tries to reach the coordinator, which may start later.
const joinPatience = 30 * time.Second

// Command returns the command agent.
func Command(a *app.App) *cobra.Command {
	join, secret, patience, index := "", "", joinPatience, -1
	cmd := &cobra.Command{
		Use: "agent", Short: "Run ranks on this host for a coordinator", Args: known,
		Long: `agent joins a run of several hosts (run --listen), starts ranks for it, and ends with it.
The ticket comes from the coordinator's output. It is as good as a login to this
host for the time of the run, and every user of a host sees the arguments of its
processes, so the variable ` + engine.TicketVariable + ` or standard input (--join -) are
the better way. The agent starts only plugins of its own plugin directories that
are the same files as the coordinator's, and with --witness the benchmarks of
the field that it finds in its PATH.`,
		Example: `  ` + engine.TicketVariable + `=tb1-... transportbench agent
  transportbench agent --join -`,
		RunE: a.WithSettings(func(cmd *cobra.Command, s *options.Settings, unknown []string) error {
			ticket, err := readTicket(a, join)
			if err == nil {
				ticket, err = unseal(ticket, secret)
			}
			if err != nil {
				return err
			}
			unknownFlag := ""
			if len(unknown) > 0 {
				unknownFlag, _, _ = strings.Cut(unknown[0], "=")
			}
			return serveCoordinator(cmd.Context(), a, s, ticket, patience, index, unknownFlag)
		}),
	}
	// A coordinator of another version may pass other flags. The agent joins all the same: the
	// coordinator then refuses it for its version, or if that is the same, for the flag.
	cmd.FParseErrWhitelist.UnknownFlagsHandling = pflag.PassUnknownFlagToArgs
	cmd.Flags().StringVar(&join, "join", "",
		"ticket of the run, or - to read it from standard input (default: "+engine.TicketVariable+
			")")
	cmd.Flags().StringVar(&secret, options.KeySecret, "",
		"file without which the ticket is worth nothing, as the coordinator's --launch passes it")
	cmd.Flags().DurationVar(&patience, "patience", joinPatience,
		"try to reach the coordinator for this time")
	cmd.Flags().IntVar(&index, "index", -1, "place of this host among the others (default: as "+
		"the engine that starts the agents numbers them)")
	return cmd
}

// known refuses arguments. Those from an unknown flag on are left to the coordinator.
func known(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		return nil
	}
	return app.NoArgs(cmd, args)
}

// readTicket returns the ticket that an agent was given.
func readTicket(a *app.App, join string) (hosts.Ticket, error) {
	source, text := "--join", join
	switch join {
	case "":
		if source, text = engine.TicketVariable, os.Getenv(engine.TicketVariable); text == "" {
			return hosts.Ticket{}, app.Usagef("agent needs a ticket: --join TICKET, or --join - "+
				"and the ticket on standard input, or the variable %s; run --listen prints one",
				source)
		}
	case "-":
		line, err := bufio.NewReader(io.LimitReader(a.Stdin, 8192)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return hosts.Ticket{}, fmt.Errorf("read the ticket: %w", err)
		}
		source, text = "standard input", line
	}
	ticket, err := hosts.ParseTicket(strings.TrimSpace(text))
	if err != nil {
		return ticket, app.Usagef("%s: %v", source, err)
	}
	return ticket, nil
}

// unseal returns the ticket that a launcher's stands for together with the secret in a file.
// Without a path it is the launcher's.
func unseal(ticket hosts.Ticket, path string) (hosts.Ticket, error) {
	if path == "" {
		return ticket, nil
	}
	secret, err := hosts.ReadSecret(path)
	if err == nil {
		ticket.Token = secret.Token(ticket.Token)
	}
	return ticket, err
}

// serveCoordinator runs an agent until its coordinator ends the run.
func serveCoordinator(ctx context.Context, a *app.App, s *options.Settings, ticket hosts.Ticket,
	patience time.Duration, index int, unknownFlag string) error {
	dirs, err := host.Dirs(s.PluginDir)
	if err != nil {
		return s.Explain(err)
	}
	if err := host.CheckTemp(); err != nil {
		return app.Usagef("%s", printable.Joined(err))
	}
	hello, err := hosts.NewHello()
	if err != nil {
		return err
	}
	hello.Index, hello.UnknownFlag, hello.Libraries = index, unknownFlag, doctor.Libraries()
	hello.Step = engine.FindStep(os.Getenv)
	if task, found := engine.FindTask(os.Getenv); found && index < 0 {
		hello.Index, hello.Tasks = task.Rank, task.Size
	}
	conn, silence, err := hosts.Join(ctx, ticket, hello, patience)
	if err != nil {
		return err
	}
	if a.Verbose {
		a.Note("joined the run of %v", conn.RemoteAddr())
	}
	err = agent.Serve(ctx, conn, silence, dirs)
	switch {
	case errors.Is(err, agent.ErrEnded):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("lost the coordinator %v, so the ranks here were ended: %w",
		conn.RemoteAddr(), err)
}
