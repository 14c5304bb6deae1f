package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"transportbench/core/lab/hosts"
	"transportbench/core/lab/hosts/engine"
	"transportbench/core/lab/runner"
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
}

// join waits for the hosts of the run, if the settings ask for any.
func (s *session) join(ctx context.Context) (err error) {
	s.cluster, err = s.gather(ctx)
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
	coordinator, err := hosts.Listen(st.listen, hosts.Options{
		Token: st.token, ShareMachine: s.settings.Hosts.ShareMachine, AllowMixedRuntime: s.settings.AllowMixed,
		Log: func(line string) { s.note("%s", line) },
	})
	if err != nil {
		return nil, usagef("--listen: %v", err)
	}
	starting, engine, err := s.start(ctx, st, coordinator.Ticket())
	if err != nil {
		coordinator.Close()
		return nil, err
	}
	agents, err := coordinator.Wait(starting, st.agents)
	if err != nil {
		coordinator.Close()
		engine.Stop()
		return nil, err
	}
	c := &cluster{coordinator: coordinator, engine: engine, agents: agents}
	if err := c.connect(s); err != nil {
		c.close()
		return nil, err
	}
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

// close ends the agents.
func (c *cluster) close() {
	if c == nil {
		return
	}
	for _, r := range c.remotes {
		r.Close()
	}
	for _, a := range c.agents[len(c.remotes):] {
		_ = a.Conn.Close()
	}
	c.coordinator.Close()
	c.engine.Stop()
}

// describe replaces the descriptions of plugins by those of the hosts, which may have devices that this
// one has not. A plugin is available if it is on all hosts, the same file as here.
func (c *cluster) describe(ctx context.Context, entries []*entry) error {
	for _, e := range entries {
		sum, err := e.SHA256()
		if err != nil {
			return err
		}
		descriptions := make([]plugin.Description, len(c.remotes))
		errs := make([]error, len(c.remotes))
		var asking sync.WaitGroup
		for i, r := range c.remotes {
			asking.Go(func() { descriptions[i], errs[i] = r.Describe(ctx, e.Name, sum) })
		}
		asking.Wait()
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

// remoteLauncher starts the ranks of one transport on the hosts.
type remoteLauncher struct {
	*cluster
	options agent.LaunchOptions
}

// launcher returns a launcher for a plugin.
func (c *cluster) launcher(s *session, e *entry) (*remoteLauncher, error) {
	sum, err := e.SHA256()
	if err != nil {
		return nil, err
	}
	level := slog.LevelError
	if s.verbose {
		level = slog.LevelInfo
	}
	return &remoteLauncher{c, agent.LaunchOptions{
		Name: e.Name, SHA256: sum, AllowMixedRuntime: s.settings.AllowMixed, StartTimeout: s.settings.StartTimeout, LogLevel: level,
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
		return nil, err
	}
	return p, nil
}
