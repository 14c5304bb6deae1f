package hosts

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"transportbench/core"
)

// Options configure a coordinator. The zero value is ready to use.
type Options struct {
	// Token is the secret of the run; zero is a fresh one.
	Token Token
	// ShareMachine allows several agents on one machine.
	ShareMachine bool
	// AllowMixedRuntime allows agents that were built from another measured runtime.
	AllowMixedRuntime bool
	// HostTimeout is how long a host may be silent; zero is DefaultTimeout.
	HostTimeout time.Duration
	// Log gets a line for each agent that joins and each connection that is refused. It may be nil,
	// and may be called concurrently.
	Log func(line string)

	strangers, refusals int           // instead of maxStrangers and maxRefusals, in tests
	timeout             time.Duration // instead of joinTimeout, in tests
	pause               func()        // instead of a sleep of latePause, in tests
}

// Agent is a host that has joined.
type Agent struct {
	Hello
	// Conn is the connection, over which the agent serves the coordinator.
	Conn net.Conn
	// Remote is where it comes from.
	Remote string

	joined bool          // it has the answer
	raw    *net.TCPConn  // below Conn
	unseen chan struct{} // closed when nobody watches for its end
}

func (a *Agent) String() string { return fmt.Sprintf("%s (%s)", a.Name, a.Remote) }

// Coordinator accepts the agents of one run.
type Coordinator struct {
	ticket    Ticket
	options   Options
	config    *tls.Config
	listener  net.Listener
	running   sync.WaitGroup
	changed   chan struct{} // wakes Wait
	tellEvery time.Duration // how often Wait tells what it waits for

	mu      sync.Mutex
	want    int // agents; 0 until Wait
	agents  []*Agent
	failed  error // an agent that no run can have
	lost    error // an agent that has joined
	handed  bool  // Wait has returned the agents
	ended   bool
	pending map[net.Conn]bool // that have not joined
	// strangers are those of them that have not proved that they know the token, the oldest first.
	strangers []net.Conn
	refused   int
}

// ErrLost is wrapped by errors that report the loss of a host: that of [Coordinator.Wait] if an
// agent that had joined is lost, and those of runs.
var ErrLost = errors.New("is lost")

// tellEvery is how often Wait tells what it waits for: an engine may queue for hours.
const tellEvery = 10 * time.Second

const (
	// maxStrangers bounds the connections that have not proved that they know the token. All
	// agents of a run may connect at once.
	maxStrangers = 1024
	// maxRefusals bounds the lines about refused connections.
	maxRefusals = 100
	// latePause is between two connections once all agents have joined: strangers then cost the
	// hosts' ranks at most a handshake of half a millisecond in this time.
	latePause = 100 * time.Millisecond
)

// Listen opens the coordinator's port. address is HOST:PORT; an empty host listens on all
// addresses, and port 0 takes a free one.
func Listen(address string, options Options) (*Coordinator, error) {
	if options.Token == (Token{}) {
		rand.Read(options.Token[:]) // never fails
	}
	if options.Log == nil {
		options.Log = func(string) {}
	}
	options.strangers, options.refusals = cmp.Or(options.strangers, maxStrangers),
		cmp.Or(options.refusals, maxRefusals)
	options.timeout = cmp.Or(options.timeout, joinTimeout)
	options.HostTimeout = cmp.Or(options.HostTimeout, DefaultTimeout)
	if options.pause == nil {
		options.pause = func() { time.Sleep(latePause) }
	}
	config, err := options.Token.config(coordinatorRole, agentRole)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	bound, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("listen for agents: %w", err)
	}
	local, err := net.InterfaceAddrs()
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	c := &Coordinator{
		ticket: Ticket{Token: options.Token,
			Addresses: addresses(netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()), local)},
		options: options, config: config, listener: listener,
		changed: make(chan struct{}, 1), tellEvery: tellEvery, pending: map[net.Conn]bool{},
	}
	c.running.Go(c.accept)
	return c, nil
}

// Ticket returns what agents need to join.
func (c *Coordinator) Ticket() Ticket { return c.ticket }

// Step returns the step of Slurm that the agents belong to, or "" if none belongs to one.
func (c *Coordinator) Step() (step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		step = cmp.Or(step, a.Step)
	}
	return step
}

// Wait returns n agents once they have joined, or if n is 0, as many as the engine of the first
// says that it started. They are in the order of the engine that started them, or else of their
// hosts' names. Agents that join later are refused. Wait fails if ctx ends, if an agent is lost
// before all have joined, or if one joins that no run can have: of another version, or the second
// on a machine.
func (c *Coordinator) Wait(ctx context.Context, n int) ([]*Agent, error) {
	c.mu.Lock()
	c.want = n
	c.mu.Unlock()
	tell := time.NewTicker(c.tellEvery)
	defer tell.Stop()
	for {
		agents, err := c.complete()
		if agents != nil {
			err = c.handOver(agents)
		}
		if err != nil {
			return nil, err
		}
		if agents != nil {
			return agents, nil
		}
		select {
		case <-c.changed:
		case <-tell.C:
			c.options.Log(c.waiting())
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", c.waiting(), context.Cause(ctx))
		}
	}
}

// waiting tells how many agents have joined.
func (c *Coordinator) waiting() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waitingNow()
}

// waitingNow is waiting for callers that hold mu.
func (c *Coordinator) waitingNow() string {
	joined := strconv.Itoa(len(c.agents))
	if c.want > 0 {
		joined += fmt.Sprintf(" of %d", c.want)
	}
	return "waiting for agents: " + joined + " joined"
}

// failure returns why the agents cannot all join. The caller holds mu.
func (c *Coordinator) failure() error {
	if c.failed == nil && c.lost != nil {
		return fmt.Errorf("%s: %w", c.waitingNow(), c.lost)
	}
	return c.failed
}

// complete returns the agents if all have joined.
func (c *Coordinator) complete() ([]*Agent, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failure(); err != nil {
		return nil, err
	}
	if c.want == 0 && len(c.agents) > 0 {
		if c.want = c.agents[0].Tasks; c.want == 0 {
			return nil,
				fmt.Errorf("%v joined, and its engine does not tell how many agents it started: "+
					"add --agents", c.agents[0])
		}
	}
	var agents []*Agent
	for _, a := range c.agents {
		if a.joined {
			agents = append(agents, a)
		}
	}
	if c.want == 0 || len(agents) < c.want {
		return nil, nil
	}
	for _, late := range agents[c.want:] { // they joined before Wait said how many
		c.options.Log(fmt.Sprintf("%v is one agent more than the %d that were wanted",
			late, c.want))
		_ = late.Conn.Close()
	}
	agents = agents[:c.want]
	c.agents = slices.Clone(agents)
	slices.SortStableFunc(agents, func(a, b *Agent) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), naturally(a.Name, b.Name))
	})
	return agents, nil
}

// Close stops listening. It leaves the connections of agents that Wait has returned open.
func (c *Coordinator) Close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.ended = true
	for conn := range c.pending {
		_ = conn.Close()
	}
	if !c.handed {
		for _, a := range c.agents {
			_ = a.raw.Close()
		}
	}
	c.mu.Unlock()
	c.running.Wait()
}

func (c *Coordinator) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			c.options.Log("accept an agent: " + err.Error())
			time.Sleep(retryPause)
			continue
		}
		late := c.track(conn)
		c.running.Go(func() {
			defer c.forget(conn)
			if err := c.admit(conn); err != nil {
				_ = conn.Close()
				c.logRefusal(fmt.Sprintf("refused a connection from %v: %v", conn.RemoteAddr(),
					err))
			}
		})
		if late {
			c.options.pause()
		}
	}
}

// track remembers a connection that has not joined, so that Close can end it, and reports whether
// all agents have joined already. If there are too many strangers it ends the oldest: agents prove
// at once that they are none, so those who say nothing cannot keep them out.
func (c *Coordinator) track(conn net.Conn) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = conn.Close()
	}
	if len(c.strangers) == c.options.strangers {
		_ = c.strangers[0].Close()
		c.strangers = c.strangers[1:]
	}
	c.pending[conn] = true
	c.strangers = append(c.strangers, conn)
	return c.handed
}

// know notes that a connection is no stranger's.
func (c *Coordinator) know(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strangers = slices.DeleteFunc(c.strangers, func(s net.Conn) bool { return s == conn })
}

func (c *Coordinator) forget(conn net.Conn) {
	c.know(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, conn)
}

// logRefusal logs the first refusals: strangers cannot fill the log.
func (c *Coordinator) logRefusal(line string) {
	c.mu.Lock()
	c.refused++
	n := c.refused
	c.mu.Unlock()
	if n == c.options.refusals {
		line += "; more of them are not logged"
	}
	if n <= c.options.refusals {
		c.options.Log(line)
	}
}

// admit lets a connection join, or returns why not.
func (c *Coordinator) admit(raw net.Conn) error {
	conn, err := handshake(raw, tls.Server, c.config, c.options.timeout)
	if err != nil {
		return explainHandshake(err)
	}
	c.know(raw)
	hello, err := readHello(conn)
	if err != nil {
		return err
	}
	remote, _, _ := net.SplitHostPort(raw.RemoteAddr().String())
	agent := &Agent{Hello: hello, Conn: conn, Remote: remote, raw: raw.(*net.TCPConn),
		unseen: make(chan struct{})}
	refusal := c.join(agent)
	err = writeMessage(conn, answer{refusal, c.options.HostTimeout})
	switch {
	case refusal != "":
		return fmt.Errorf("agent on %s: %s", hello.Name, refusal)
	case err == nil:
		err = errors.Join(conn.SetDeadline(time.Time{}), watchPeer(raw, c.options.HostTimeout))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.ended {
		err = net.ErrClosed
	}
	if err != nil {
		c.agents = slices.DeleteFunc(c.agents, func(a *Agent) bool { return a == agent })
		return err
	}
	agent.joined = true
	c.options.Log(fmt.Sprintf("%v joined", agent))
	c.wake()
	c.running.Go(func() { c.watch(agent) })
	return nil
}

// watch makes Wait fail when an agent that has joined is lost.
func (c *Coordinator) watch(agent *Agent) {
	defer close(agent.unseen)
	ended := awaitEnd(agent.raw)
	if ended == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = fmt.Errorf("host %v %w: %w", agent, ErrLost, ended)
		c.wake()
	}
}

// handOver ends the watch of agents, whose connections are then the caller's. It fails if one was
// lost.
func (c *Coordinator) handOver(agents []*Agent) error {
	for _, a := range agents {
		_ = a.raw.SetReadDeadline(time.Unix(1, 0))
		<-a.unseen
		_ = a.raw.SetReadDeadline(time.Time{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.failure()
	c.handed = err == nil
	return err
}

func (c *Coordinator) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// join returns why an agent cannot join, or "".
func (c *Coordinator) join(agent *Agent) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.want > 0 && len(c.agents) >= c.want {
		return fmt.Sprintf("the run has its %d agents already", c.want)
	}
	reason := c.mismatch(agent)
	if reason == "" {
		c.agents = append(c.agents, agent) // so that a second one on its machine is seen
	} else if c.failed == nil {
		c.failed = fmt.Errorf("agent on %v: %s", agent, reason)
		c.wake()
	}
	return reason
}

// mismatch returns why no run can have an agent, or "": its build differs, or its machine has one
// already.
func (c *Coordinator) mismatch(agent *Agent) string {
	switch {
	case agent.Version != core.Version:
		return fmt.Sprintf(
			"it is of version %s, the coordinator of %s: install the same on all hosts",
			agent.Version, core.Version)
	case agent.Runtime != core.RuntimeDigest() && !c.options.AllowMixedRuntime:
		return "it was built from another measured runtime than the coordinator: install the " +
			"same build on all hosts, or pass --allow-mixed-runtime"
	case agent.UnknownFlag != "":
		return "it does not know the flag " + agent.UnknownFlag
	case c.options.ShareMachine:
		return ""
	}
	for _, other := range c.agents {
		if other.BootID == agent.BootID {
			return fmt.Sprintf("%v is on the same machine: start one agent for each host (srun "+
				"--ntasks-per-node=1, mpirun --map-by node), or pass --share-machine", other)
		}
	}
	return ""
}

// explainHandshake replaces the errors of what most often connects by mistake.
func explainHandshake(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return errors.New("it is no agent: it does not speak TLS")
	case strings.Contains(err.Error(), "bad certificate"), errors.Is(err, errWrongKey):
		return errWrongKey
	}
	return err
}
