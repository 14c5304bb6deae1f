package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/experiment/hosts/path"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/plugin"
	"transportbench/core/plugin/agent"
	"transportbench/core/plugin/host"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// Cluster is the hosts of a run that are not this one.
type Cluster struct {
	coordinator *hosts.Coordinator
	engine      *engine.Engine // nil if the user starts the agents
	agents      []*hosts.Agent
	remotes     []*agent.Remote
	turns       map[string]chan struct{} // by boot ID, for starting processes
	layout      *hosts.Layout
	steps       []result.Step // before the first run
}

// timed adds a step that began at a time and ends now.
func (c *Cluster) timed(name string, began time.Time) {
	c.steps = append(c.steps, result.Step{Name: name, MS: float64(time.Since(began)) /
		float64(time.Millisecond)})
}

// Join says which agents join a run.
type Join struct {
	Listen       string
	Token        hosts.Token // zero for a fresh one
	Agents       int         // 0 for as many as the engine starts
	ShareMachine bool
	AllowMixed   bool
	Timeout      time.Duration // 0 for none
	// HostTimeout is how long a host may be silent; 0 for the default. With ShareMachine it may be
	// silent for sharedSilence times as long.
	HostTimeout  time.Duration
	RanksPerHost int
	Map          string
	// Options are the options of transports that differ on an agent's host, by its index; agents
	// without an index have those of Map alone.
	Options []map[string]string
	// Start starts the agents with the ticket, and returns a context that ends if that fails later,
	// and what it has started, which may be nil.
	Start func(ctx context.Context, ticket hosts.Ticket) (context.Context, *engine.Engine, error)
	// Note tells the user of agents that join, and Log gets what the plugins of a host log.
	Note func(line string)
	Log  func(host, line string)
}

// silence is how long a host may be silent. Agents of one machine cannot be cut off from the
// coordinator, but may wait long for a processor.
func (j *Join) silence() time.Duration {
	silence := cmp.Or(j.HostTimeout, hosts.DefaultTimeout)
	if j.ShareMachine {
		silence *= sharedSilence
	}
	return min(silence, hosts.MaxTimeout)
}

const sharedSilence = 6

// Gather starts agents and waits until they have joined.
func Gather(ctx context.Context, j Join) (*Cluster, error) {
	began := time.Now()
	coordinator, err := hosts.Listen(j.Listen, hosts.Options{
		Token: j.Token, ShareMachine: j.ShareMachine, AllowMixedRuntime: j.AllowMixed, Log: j.Note,
		HostTimeout: j.silence(),
	})
	if err != nil {
		return nil, &config.Error{Option: "listen", Problem: err.Error()}
	}
	starting, engine, err := j.Start(ctx, coordinator.Ticket())
	if err != nil {
		coordinator.Close()
		return nil, err
	}
	if j.Timeout > 0 {
		var cancel context.CancelFunc
		starting, cancel = context.WithTimeoutCause(starting, j.Timeout,
			fmt.Errorf("not all within %v (--join-timeout)", j.Timeout))
		defer cancel()
	}
	agents, err := coordinator.Wait(starting, j.Agents)
	if err != nil {
		if errors.Is(err, hosts.ErrLost) {
			err = withReason(engine, err)
		}
		coordinator.Close()
		engine.Stop(coordinator.Step())
		return nil, err
	}
	c := &Cluster{coordinator: coordinator, engine: engine, agents: agents}
	if err := c.connect(&j); err != nil {
		c.Close()
		return nil, err
	}
	c.timed("join", began)
	return c, nil
}

// connect takes the connections of the agents over.
func (c *Cluster) connect(j *Join) error {
	names := c.Names()
	c.turns = map[string]chan struct{}{}
	for i, a := range c.agents {
		if c.turns[a.BootID] == nil {
			c.turns[a.BootID] = make(chan struct{}, runner.LaunchesAtOnce(len(a.CPUs)))
		}
		remote, err := agent.Connect(names[i], a.Conn, j.silence(), func(text string) {
			for line := range strings.Lines(text) {
				j.Log(names[i], strings.TrimSuffix(line, "\n"))
			}
		})
		if err != nil {
			return err
		}
		c.remotes = append(c.remotes, remote)
	}
	var err error
	if c.layout, err = hosts.NewLayout(names, j.RanksPerHost, j.Map); err != nil {
		return &config.SourceError{Problem: err.Error(), Err: err}
	}
	for i, a := range c.agents {
		if a.Index >= 0 && a.Index < len(j.Options) {
			c.layout.SetOptions(i, j.Options[a.Index])
		}
	}
	return nil
}

// Names returns the hosts' names, with a number where several agents have the same.
func (c *Cluster) Names() []string {
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

// Place puts the ranks of a run on the hosts.
func (c *Cluster) Place(req *runner.Request) error {
	list, err := c.layout.Hosts(req.Config.Ranks)
	if err != nil {
		return &config.SourceError{Problem: err.Error(), Err: err}
	}
	req.RankHosts, req.Explain = list, c.explain
	names, several := c.Names(), c.several()
	for i, a := range c.agents {
		h := runner.Host{
			Name: names[i], Machine: a.BootID, Network: a.Network, Address: a.Remote,
			CPUs: a.CPUs, Environment: a.Environment, Limits: a.Limits,
			State: c.remotes[i].State, Witness: c.remotes[i],
		}
		own := map[string]string{} // those that the transport has
		for name, value := range c.layout.Options(i) {
			if _, has := req.Config.Options[name]; has {
				own[name] = value
			}
		}
		if several || len(own) > 0 {
			if several {
				h.Options = ownAddress(req.Roles, req.Config.Options, a.Address)
			}
			if len(own) > 0 {
				if h.Options == nil {
					h.Options = map[string]string{}
				}
				maps.Copy(h.Options, own)
			}
			options := maps.Clone(req.Config.Options)
			maps.Copy(options, h.Options)
			h.Device = a.Device(req.Roles, options)
			h.Reach = a.Reach(options[req.Roles.Address]).String()
		}
		req.Hosts = append(req.Hosts, h)
	}
	first := req.Hosts[list[0]]
	req.CPUs, req.System, req.Environment = first.CPUs, first.Limits, c.Environment(list)
	return nil
}

// Environment returns the environment of the hosts in list, or of all if that is nil: the first
// one's, with the number of machines if there are several. Results of one machine and of several do
// not compare.
func (c *Cluster) Environment(list []int) machine.Environment {
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

// ownAddress returns the address of a host as the transport's option, if the option exists and has
// its default: loopback does not reach other machines. A medium of one host has no address.
func ownAddress(roles transport.Roles, given map[string]string, a netip.Addr) map[string]string {
	switch given[roles.Provider] {
	case transport.MediumMemory, transport.MediumUnix, transport.MediumVsock:
		return nil
	}
	if roles.Address == "" || given[roles.Address] != loopback {
		return nil
	}
	return map[string]string{roles.Address: a.String()}
}

// loopback is the default address of the transports that have one.
const loopback = "127.0.0.1"

// several reports whether the agents have more than one network, so that loopback does not reach
// all of them: they are on several machines, or in several namespaces of one.
func (c *Cluster) several() bool {
	first := c.agents[0]
	return slices.ContainsFunc(c.agents, func(a *hosts.Agent) bool {
		return a.BootID != first.BootID || a.Network != first.Network
	})
}

// explain adds to the error of a run the host that does not answer, because a rank may notice that
// its peer is gone before this host does, and why the engine ended.
func (c *Cluster) explain(err error) error {
	if !errors.Is(err, hosts.ErrLost) {
		failure := c.unanswered()
		if failure == nil {
			return err
		}
		err = fmt.Errorf("%w; %w", err, failure)
	}
	return withReason(c.engine, err)
}

// withReason adds why the engine ended to the loss of an agent, which may be the consequence. e may
// be nil.
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
func (c *Cluster) unanswered() error {
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
			failure = fmt.Errorf("host %s does not answer", c.Names()[i])
		}
		return failure
	}
	return nil
}

const (
	// answerTime is how long explain waits for hosts.
	answerTime = 3 * time.Second
	// engineTime is how long an engine may take to end after an agent. One that knows nothing of
	// it, as when a cable is cut, does not end at all.
	engineTime = 2 * time.Second
)

// Close ends the agents. It does nothing if c is nil.
func (c *Cluster) Close() {
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
	c.engine.Stop(c.coordinator.Step())
}

// OwnOptions returns the options of transports that differ on each host.
func (c *Cluster) OwnOptions() []hosts.OwnOptions { return c.layout.OwnOptions() }

// Steps returns what was done before the first run.
func (c *Cluster) Steps() []result.Step { return c.steps }

// Hellos returns what the agents told of their hosts.
func (c *Cluster) Hellos() (list []hosts.Hello) {
	for _, a := range c.agents {
		list = append(list, a.Hello)
	}
	return list
}

// Describe calls use with the description of each plugin by the hosts, which may have devices that
// this one has not. A plugin is available if it is on all hosts, the same file as here.
func (c *Cluster) Describe(ctx context.Context, plugins []*host.Plugin,
	use func(i int, d plugin.Description, err error)) error {
	defer c.timed("describe", time.Now())
	for i, p := range plugins {
		sum, err := p.SHA256()
		if err != nil {
			return err
		}
		all, errs := c.Descriptions(ctx, p.Name, sum)
		if err := errors.Join(errs...); err != nil {
			use(i, plugin.Description{}, err)
			continue
		}
		d := all[0]
		for h, other := range all {
			if other.Info.Unavailable != "" {
				d.Info.Unavailable = fmt.Sprintf("host %s: %s", c.Names()[h],
					other.Info.Unavailable)
			}
		}
		use(i, d, nil)
	}
	return ctx.Err()
}

// Descriptions returns those of a plugin by all hosts, or their errors. The agents of a machine
// take turns.
func (c *Cluster) Descriptions(ctx context.Context, name, sha256 string) ([]plugin.Description,
	[]error) {
	descriptions, errs := make([]plugin.Description, len(c.remotes)), make([]error, len(c.remotes))
	var asking sync.WaitGroup
	for i, r := range c.remotes {
		asking.Go(func() {
			turn := c.turns[c.agents[i].BootID]
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
				descriptions[i], errs[i] = r.Describe(ctx, name, sha256)
			case <-ctx.Done():
				errs[i] = context.Cause(ctx)
			}
		})
	}
	asking.Wait()
	return descriptions, errs
}

// Paths measures the network from each host to each other one, at the hosts' addresses in network,
// such as 10.1.0.0/16, or if that is empty at those by which they joined. [host, to] has what was
// measured, or why nothing was. All hosts measure at once, each to another one. Of two
// bandwidths the larger counts.
func (c *Cluster) Paths(ctx context.Context, network string) (replies [][]path.Reply,
	errs [][]error, err error) {
	n := len(c.agents)
	ports := make([]path.Reply, n)
	for i, a := range c.agents {
		listen := path.Request{Listen: a.Reach(network)}
		if ports[i], err = c.remotes[i].Path(ctx, listen); err != nil {
			return nil, nil, err
		}
		replies, errs = append(replies, make([]path.Reply, n)), append(errs, make([]error, n))
	}
	for _, bulk := range []bool{false, true, true} {
		for distance := 1; distance < n; distance++ {
			var measuring sync.WaitGroup
			for from := range n {
				to := (from + distance) % n
				if errs[from][to] != nil {
					continue
				}
				measuring.Go(func() {
					got, err := c.remotes[from].Path(ctx,
						path.Request{Peer: ports[to].Port, Token: ports[to].Token, Bulk: bulk})
					r := &replies[from][to]
					r.RoundTrip, r.Rate = max(r.RoundTrip, got.RoundTrip), max(r.Rate, got.Rate)
					errs[from][to] = err
				})
			}
			measuring.Wait()
		}
	}
	return replies, errs, ctx.Err()
}

// remoteLauncher starts the ranks of one transport on the hosts.
type remoteLauncher struct {
	*Cluster
	request wire.LaunchRequest
}

// Launcher returns a launcher of a plugin on the hosts.
func (c *Cluster) Launcher(p *host.Plugin, o Options) (runner.Launcher, error) {
	sum, err := p.SHA256()
	if err != nil {
		return nil, err
	}
	return &remoteLauncher{c, wire.LaunchRequest{
		PluginRequest:     wire.PluginRequest{Name: p.Name, SHA256: sum},
		AllowMixedRuntime: o.AllowMixed, StartTimeout: o.StartTimeout, LogLevel: o.level(),
	}}, nil
}

// Launch implements [runner.Launcher].
func (l *remoteLauncher) Launch(ctx context.Context, rank int) (runner.Process, error) {
	at, err := l.layout.Host(rank)
	if err != nil {
		return nil, err
	}
	request := l.request
	request.Rank = rank
	p, err := l.remotes[at].Launch(ctx, request)
	if err != nil {
		return nil, err
	}
	return p, nil
}
