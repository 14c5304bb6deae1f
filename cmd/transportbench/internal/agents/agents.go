package agents

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/experiment/hosts/pmi"
	"transportbench/core/plugin/launch"
)

// starter knows how the agents of a run start.
type starter struct {
	processes []engine.Process // none for agents that the user starts
	agents    int              // 0 for as many as the engine starts
	listen    string
	ticket    hosts.Ticket // its token is zero for a fresh one; only tasks have its addresses
	task      engine.Task  // of those that all run this command; zero otherwise
	job       *pmi.Job     // by which these tasks share a ticket; nil if each makes it
	// number is the token of the ticket that a launcher carries, if the hosts share a secret.
	number hosts.Token
	// options are those of transports that differ on a host, by the agents' indices.
	options []map[string]string
}

// Join waits for the hosts of a run, if the settings ask for any; else it returns nil.
func Join(ctx context.Context, a *app.App, settings *options.Settings) (*launch.Cluster, error) {
	g := &gathering{a, settings}
	st, err := g.starter(ctx)
	switch {
	case st == nil || err != nil:
		return nil, err
	case st.task.Rank > 0:
		return nil, g.serveTask(ctx, st)
	}
	o := &settings.Hosts
	return launch.Gather(ctx, launch.Join{
		Listen: st.listen, Token: st.ticket.Token, Agents: st.agents, ShareMachine: o.ShareMachine,
		AllowMixed: settings.AllowMixed,
		Timeout:    o.JoinTimeout, HostTimeout: o.HostTimeout, Options: st.options,
		RanksPerHost: o.RanksPerHost, Map: o.Map,
		Start: func(ctx context.Context, ticket hosts.Ticket) (context.Context,
			*engine.Engine, error) {
			return g.start(ctx, st, ticket)
		},
		Note: func(line string) { a.Note("%s", record.Cut(line)) },
		Log:  func(host, line string) { fmt.Fprintf(a.Stderr, "%s: %s\n", host, line) },
	})
}

// gathering is the start of the hosts of a run.
type gathering struct {
	*app.App
	settings *options.Settings
}

// Alone refuses other hosts, and several copies, for a command that measures this host; why says
// so.
func Alone(settings *options.Settings, why string) error {
	if task, found := engine.FindTask(os.Getenv); found && task.Size > 1 {
		return app.Usagef("%s started %d copies of this command, and %s: run it once on each host",
			task.Engine, task.Size, why)
	}
	if o := settings.Hosts; o != (options.Hosts{Secret: o.Secret, HostTimeout: o.HostTimeout}) {
		return app.Usagef("%s: leave out the options for other hosts, such as --hosts, also in "+
			"the environment and the configuration file", why)
	}
	return nil
}

// starter returns how the agents start that the settings ask for, or nil if they ask for none.
func (g *gathering) starter(ctx context.Context) (*starter, error) {
	o := g.settings.Hosts
	if task, found := engine.FindTask(os.Getenv); found && task.Size > 1 {
		return g.everyTask(ctx, task, o)
	}
	var ways []string
	for _, way := range []struct{ name, value string }{
		{options.KeyHosts, o.Hosts}, {options.KeyHostfile, o.Hostfile},
		{options.KeyLaunch, o.Launch},
	} {
		if way.value != "" {
			ways = append(ways, way.name)
		}
	}
	st := &starter{listen: o.Listen, agents: o.Agents}
	switch {
	case len(ways) > 1:
		return nil, app.Usagef("--%s and --%s exclude each other: each starts the agents",
			ways[0], ways[1])
	case len(ways) == 0 && o.Listen == "" && o.RemoteCommand == "" &&
		o.Agents+o.RanksPerHost == 0 && o.Map == "" && !o.ShareMachine && o.JoinTimeout == 0:
		return nil, nil
	case o.Secret != "" && o.Launch == "":
		return nil, app.Usagef("--secret is for --launch, srun and mpirun; a ticket of --listen " +
			"is carried by hand, and ssh hides that of --hosts")
	case len(ways) == 0 && o.Listen == "":
		return nil, app.Usagef("--agents, --join-timeout, --ranks-per-host, --map, " +
			"--share-machine and --remote-command are for a run on other hosts: add --hosts, " +
			"--launch or --listen")
	case len(ways) == 0 && o.Agents == 0:
		return nil, app.Usagef("--listen needs the number of hosts: --agents 2")
	case len(ways) == 0 && o.RemoteCommand != "":
		return nil, app.Usagef("--remote-command is for --hosts, --hostfile and --launch; with " +
			"--listen, agents are started by hand")
	case len(ways) == 0:
		return st, st.readToken()
	case o.Launch == "" && o.Agents != 0:
		return nil,
			app.Usagef("--agents is for --listen and --launch; with --%s, each host has one",
				ways[0])
	}
	st.listen = cmp.Or(st.listen, ":0")
	return st, g.plan(st, ways[0])
}

// readToken takes the token of the ticket in the environment: agents may have it before the run
// exists.
func (st *starter) readToken() error {
	text := os.Getenv(engine.TicketVariable)
	if text == "" {
		return nil
	}
	ticket, err := hosts.ParseTicket(text)
	if err != nil {
		return app.Usagef("%s: %v", engine.TicketVariable, err)
	}
	st.ticket.Token = ticket.Token
	return nil
}

// plan sets the processes that start agents.
func (g *gathering) plan(st *starter, way string) error {
	o := g.settings.Hosts
	// The coordinator listens already. If it does not answer an agent, it is gone.
	command, args := o.RemoteCommand, []string{"agent", "--patience", "5s"}
	if command == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the path of this command: %w", err)
		}
		command = engine.Quote(self)
		if dir := g.settings.PluginDir; dir != "" {
			if dir, err = filepath.Abs(dir); err != nil {
				return err
			}
			args = append(args, "--"+options.KeyPluginDir, dir)
		}
	}
	if way == options.KeyLaunch {
		path, err := g.seal(st)
		if err != nil {
			return err
		}
		if path != "" {
			args = append(args, "--"+options.KeySecret, path)
		}
		st.processes = engine.Launch(o.Launch, command, args...)
		return nil
	}
	var list []string
	var err error
	if way == options.KeyHosts {
		list, err = engine.ParseHosts(o.Hosts)
	} else {
		list, st.options, err = readHostfile(o.Hostfile)
	}
	if err != nil {
		return app.Usagef("--%s: %v", way, err)
	}
	st.agents = len(list)
	st.processes = engine.SSH(list, command, args...)
	return nil
}

// seal makes the ticket that a launcher carries useless without the secret of the hosts. It returns
// the secret's path, or "" if the user wants none.
func (g *gathering) seal(st *starter) (string, error) {
	path, err := g.secretPath()
	if path == "" || err != nil {
		return "", err
	}
	secret, err := hosts.MakeSecret(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", options.KeySecret, err)
	}
	rand.Read(st.number[:]) // never fails
	st.ticket.Token = secret.Token(st.number)
	return path, nil
}

func (g *gathering) secretPath() (string, error) {
	switch path := g.settings.Hosts.Secret; path {
	case options.NoSecret:
		return "", nil
	case "":
		path, err := hosts.SecretPath()
		if err != nil {
			return "", app.Usagef("the secret of the hosts: %v: set --%s FILE, or --%[2]s %s", err,
				options.KeySecret, options.NoSecret)
		}
		return path, nil
	default:
		return filepath.Abs(path)
	}
}

// OwnOptions returns the options of transports that differ on a host, as the settings have them. It
// starts nothing.
func OwnOptions(settings *options.Settings) ([]hosts.OwnOptions, error) {
	o := &settings.Hosts
	list, err := hosts.ParseMap(o.Map)
	if err != nil {
		return nil, app.Usagef("%v", err)
	}
	if o.Hostfile == "" {
		return list, nil
	}
	names, own, err := readHostfile(o.Hostfile)
	if err != nil {
		return nil, app.Usagef("--%s: %v", options.KeyHostfile, err)
	}
	for i, name := range names {
		list = append(list, hosts.OwnOptions{Host: name, Options: own[i]})
	}
	return list, nil
}

func readHostfile(path string) (list []string, options []map[string]string, err error) {
	text, err := files.ReadArgument(path, engine.MaxHostfile)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	list, words, err := engine.ReadHostfile(string(text))
	for i := range words {
		var own map[string]string
		if err == nil {
			own, err = hosts.ParseOptions(words[i])
		}
		options = append(options, own)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, options, nil
}

// start starts the agents. The context that it returns ends if that fails later.
func (g *gathering) start(ctx context.Context, st *starter, ticket hosts.Ticket) (context.Context,
	*engine.Engine, error) {
	carried := ticket
	if st.number != (hosts.Token{}) {
		carried.Token = st.number
	}
	switch {
	case st.processes == nil:
		text := engine.TicketVariable + "=" + ticket.String()
		if st.ticket.Token == ticket.Token {
			text = "with this " + engine.TicketVariable
		}
		g.Note("waiting for %d agents; start on each host: %s transportbench agent",
			st.agents, text)
		return ctx, nil, nil
	case st.job != nil:
		if _, err := st.share(ctx, carried.Shorten(st.job.LongestValue()).String()); err != nil {
			return ctx, nil, err
		}
		carried = ticket // this task's own agent gets it from here
	}
	e, err := engine.Start(st.processes, carried.String(), func(label, line string) {
		fmt.Fprintf(g.Stderr, "%s: %s\n", label, printable.Text(line))
	})
	if err != nil {
		return ctx, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-e.Failed():
			cancel(g.explainEngine(e.Err()))
		case <-ctx.Done():
			cancel(nil)
		}
	}()
	return ctx, e, nil
}

// explainEngine adds the remedy to the error of a host that does not find the command, and of Open
// MPI, which does not run as root.
func (g *gathering) explainEngine(err error) error {
	var exit *engine.ExitError
	if errors.As(err, &exit) && slices.ContainsFunc(exit.Lines, func(line string) bool {
		return strings.Contains(line, "ALLOW_RUN_AS_ROOT")
	}) {
		return fmt.Errorf("%s does not run as root: run it as another user, or in a container "+
			"add its flag: --%s \"%[1]s --allow-run-as-root ...\"", exit.Label, options.KeyLaunch)
	}
	if g.settings.Hosts.Launch == "" && errors.As(err, &exit) && exit.NotFound() {
		return fmt.Errorf("%w; if transportbench has another path there, set --%s", err,
			options.KeyRemoteCommand)
	}
	return err
}
