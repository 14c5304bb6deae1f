package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/plugin"
	"transportbench/core/plugin/agent"
)

// cluster is the hosts of a run that are not this one.
type cluster struct {
	coordinator *hosts.Coordinator
	engine      *engine.Engine // nil if the user starts the agents
	agents      []*hosts.Agent
	remotes     []*agent.Remote
	layout      *hosts.Layout
	steps       []result.Step // before the first run
}

// timed adds a step that began at a time and ends now.
func (c *cluster) timed(name string, began time.Time) {
	c.steps = append(c.steps, result.Step{Name: name, MS: float64(time.Since(began)) / float64(time.Millisecond)})
}

// join waits for the hosts of the run, if the settings ask for any.
func (s *session) join(ctx context.Context) (err error) {
	if s.cluster, err = s.gather(ctx); s.cluster != nil {
		s.prepared()
	}
	return err
}

// leave ends what join started.
func (s *session) leave() { s.cluster.close() }

// gather starts the agents that the settings ask for, and waits for them. It returns nil if they ask for
// none.
func (s *session) gather(ctx context.Context) (*cluster, error) {
	st, err := s.starter()
	switch {
	case st == nil || err != nil:
		return nil, err
	case st.job != nil && st.job.Rank > 0:
		return nil, s.serveTask(ctx, st)
	}
	began := time.Now()
	coordinator, err := hosts.Listen(st.listen, hosts.Options{
		Token: st.token, ShareMachine: s.settings.Hosts.ShareMachine, AllowMixedRuntime: s.settings.AllowMixed,
		Log: func(line string) {
			if !s.verbose {
				line = record.Cut(line)
			}
			s.note("%s", line)
		},
	})
	if err != nil {
		return nil, usagef("--listen: %v", err)
	}
	starting, engine, err := s.start(ctx, st, coordinator.Ticket())
	if err != nil {
		coordinator.Close()
		return nil, err
	}
	if limit := s.settings.Hosts.JoinTimeout; limit > 0 {
		var cancel context.CancelFunc
		starting, cancel = context.WithTimeoutCause(starting, limit, fmt.Errorf("not all within %v (--join-timeout)", limit))
		defer cancel()
	}
	agents, err := coordinator.Wait(starting, st.agents)
	if err != nil {
		if errors.Is(err, hosts.ErrLost) {
			err = withReason(engine, err)
		}
		coordinator.Close()
		engine.Stop()
		return nil, err
	}
	c := &cluster{coordinator: coordinator, engine: engine, agents: agents}
	if err := c.connect(s); err != nil {
		c.close()
		return nil, err
	}
	c.timed("join", began)
	return c, nil
}

// connect takes the connections of the agents over.
func (c *cluster) connect(s *session) error {
	names := c.names()
	for i, a := range c.agents {
		remote, err := agent.Connect(names[i], a.Conn, func(text string) {
			for line := range strings.Lines(text) {
				fmt.Fprintf(s.stderr, "%s: %s\n", names[i], strings.TrimSuffix(line, "\n"))
			}
		})
		if err != nil {
			return err
		}
		c.remotes = append(c.remotes, remote)
	}
	var err error
	if c.layout, err = hosts.NewLayout(names, s.settings.Hosts.RanksPerHost, s.settings.Hosts.Map); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// names returns the hosts' names, with a number where several agents have the same.
func (c *cluster) names() []string {
	seen := map[string]int{}
	names := make([]string, len(c.agents))
	for i, a := range c.agents {
		names[i] = a.Name
		if seen[a.Name]++; seen[a.Name] > 1 {
			names[i] = fmt.Sprintf("%s#%d", a.Name, seen[a.Name])
		}
	}
	return names
}

// place puts the ranks of a run on the hosts.
func (c *cluster) place(req *runner.Request) error {
	list, err := c.layout.Hosts(req.Config.Ranks)
	if err != nil {
		return usagef("%v", err)
	}
	req.RankHosts, req.Explain = list, c.explain
	names, several := c.names(), c.several()
	for i, a := range c.agents {
		h := runner.Host{
			Name: names[i], Machine: a.BootID, Address: a.Remote, CPUs: a.CPUs, Environment: a.Environment, Limits: a.Limits,
			State: func(ctx context.Context, cpus []int) (runner.State, error) {
				state, err := c.remotes[i].State(ctx, cpus)
				return runner.State(state), err
			},
			Witness: c.remotes[i],
		}
		if several {
			h.Options = ownAddress(req.Config.Options, a.Address)
			options := maps.Clone(req.Config.Options)
			maps.Copy(options, h.Options)
			h.Device, h.Reach = a.Device(options), a.Reach(options).String()
		}
		req.Hosts = append(req.Hosts, h)
	}
	first := req.Hosts[list[0]]
	req.CPUs, req.System, req.Environment = first.CPUs, first.Limits, c.environment(list)
	return nil
}

// environment returns the environment of the hosts in list, or of all if that is nil: the first one's,
// with the number of machines if there are several. Results of one machine and of several do not compare.
func (c *cluster) environment(list []int) machine.Environment {
	if list == nil {
		for i := range c.agents {
			list = append(list, i)
		}
	}
	machines := map[string]bool{}
	for _, i := range list {
		machines[c.agents[i].BootID] = true
	}
	e := c.agents[list[0]].Environment
	if len(machines) > 1 {
		e.Identity.Machines = len(machines)
	}
	return e
}

// ownAddress returns the address of a host as the transport's option, if the option exists and has its
// default: loopback does not reach other machines.
func ownAddress(given map[string]string, address netip.Addr) map[string]string {
	const option, network, tcp = "address", "network", "tcp"
	if given[option] != loopback || given[network] != "" && given[network] != tcp {
		return nil
	}
	return map[string]string{option: address.String()}
}

// loopback is the default address of the transports that have one.
const loopback = "127.0.0.1"

// several reports whether the agents are on more than one machine.
func (c *cluster) several() bool {
	return slices.ContainsFunc(c.agents, func(a *hosts.Agent) bool { return a.BootID != c.agents[0].BootID })
}

// explain adds to the error of a run the host that does not answer, because a rank may notice that its peer
// is gone before this host does, and why the engine ended.
func (c *cluster) explain(err error) error {
	if !errors.Is(err, hosts.ErrLost) {
		failure := c.unanswered()
		if failure == nil {
			return err
		}
		err = fmt.Errorf("%w; %w", err, failure)
	}
	return withReason(c.engine, err)
}

// withReason adds why the engine ended to the loss of an agent, which may be the consequence. e may be nil.
func withReason(e *engine.Engine, err error) error {
	var exit *engine.ExitError
	if e == nil || errors.As(err, &exit) {
		return err
	}
	select {
	case <-e.Failed():
		return fmt.Errorf("%w; %w", err, e.Err())
	case <-time.After(engineTime):
		return err
	}
}

// unanswered asks all hosts and returns why one does not answer, or nil.
func (c *cluster) unanswered() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	failures := make([]error, len(c.remotes))
	var asking sync.WaitGroup
	for i, r := range c.remotes {
		asking.Go(func() { _, failures[i] = r.State(ctx, nil) })
	}
	asking.Wait()
	for i, failure := range failures {
		if failure == nil {
			continue
		}
		if !errors.Is(failure, hosts.ErrLost) {
			failure = fmt.Errorf("host %s does not answer", c.names()[i])
		}
		return failure
	}
	return nil
}

const (
	// answerTime is how long explain waits for hosts.
	answerTime = 3 * time.Second
	// engineTime is how long an engine may take to end after an agent. One that knows nothing of it, as when
	// a cable is cut, does not end at all.
	engineTime = 2 * time.Second
)

// close ends the agents.
func (c *cluster) close() {
	if c == nil {
		return
	}
	var closing sync.WaitGroup
	for _, r := range c.remotes {
		closing.Go(r.Close)
	}
	closing.Wait()
	for _, a := range c.agents[len(c.remotes):] {
		_ = a.Conn.Close()
	}
	c.coordinator.Close()
	c.engine.Stop()
}

// onHosts returns a function that passes entries on as they are on the hosts of the run.
func (s *session) onHosts(ctx context.Context) func([]*entry, error) ([]*entry, error) {
	return func(entries []*entry, err error) ([]*entry, error) {
		if err == nil && s.cluster != nil {
			err = s.cluster.describe(ctx, entries)
		}
		return entries, err
	}
}

// describe replaces the descriptions of plugins by those of the hosts, which may have devices that this
// one has not. A plugin is available if it is on all hosts, the same file as here.
func (c *cluster) describe(ctx context.Context, entries []*entry) error {
	defer c.timed("describe", time.Now())
	for _, e := range entries {
		sum, err := e.SHA256()
		if err != nil {
			return err
		}
		descriptions, errs := c.descriptions(ctx, e.Name, sum)
		if e.err = errors.Join(errs...); e.err != nil {
			continue
		}
		e.description = descriptions[0]
		for i, d := range descriptions {
			if d.Info.Unavailable != "" {
				e.description.Info.Unavailable = fmt.Sprintf("host %s: %s", c.names()[i], d.Info.Unavailable)
			}
		}
	}
	return ctx.Err()
}

// descriptions returns those of a plugin by all hosts, or their errors.
func (c *cluster) descriptions(ctx context.Context, name, sha256 string) ([]plugin.Description, []error) {
	descriptions, errs := make([]plugin.Description, len(c.remotes)), make([]error, len(c.remotes))
	var asking sync.WaitGroup
	for i, r := range c.remotes {
		asking.Go(func() { descriptions[i], errs[i] = r.Describe(ctx, name, sha256) })
	}
	asking.Wait()
	return descriptions, errs
}

// remoteLauncher starts the ranks of one transport on the hosts.
type remoteLauncher struct {
	*cluster
	options agent.LaunchOptions
}

// launcher returns a launcher for a plugin.
func (c *cluster) launcher(s *session, e *entry, mixed bool) (*remoteLauncher, error) {
	sum, err := e.SHA256()
	if err != nil {
		return nil, err
	}
	level := slog.LevelError
	if s.verbose {
		level = slog.LevelInfo
	}
	return &remoteLauncher{c, agent.LaunchOptions{
		Name: e.Name, SHA256: sum, AllowMixedRuntime: mixed, StartTimeout: s.settings.StartTimeout, LogLevel: level,
	}}, nil
}

// Launch implements [runner.Launcher].
func (l *remoteLauncher) Launch(ctx context.Context, rank int) (runner.Process, error) {
	at, err := l.layout.Host(rank)
	if err != nil {
		return nil, err
	}
	p, err := l.remotes[at].Launch(ctx, rank, l.options)
	if err != nil {
		return nil, explainMixed(err)
	}
	return p, nil
}
