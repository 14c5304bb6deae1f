package hosts

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core"
	"transportbench/core/base/machine"
	"transportbench/core/transport"
)

// fakeHello is the hello of a host.
func fakeHello(name, boot string, index int) Hello {
	return Hello{Version: core.Version, Runtime: core.RuntimeDigest(), Name: name, BootID: boot,
		Index: index, CPUs: []machine.CPU{{ID: 0}}}
}

// logLines collects what a coordinator logs.
type logLines struct {
	mu    sync.Mutex
	lines []string
	each  chan struct{}
}

func newLog() *logLines { return &logLines{each: make(chan struct{}, 100)} }

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	l.each <- struct{}{}
}

func (l *logLines) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func listen(t *testing.T, options Options) (*Coordinator, *logLines) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	log := newLog()
	options.Log = log.add
	c, err := Listen("127.0.0.1:0", options)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		goleak.VerifyNone(t, before)
	})
	return c, log
}

func join(t *testing.T, ticket Ticket, hello Hello) (net.Conn, error) {
	conn, _, err := Join(t.Context(), ticket, hello, 0)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func TestJoin(t *testing.T) {
	c, log := listen(t, Options{})
	ticket, err := ParseTicket(c.Ticket().String())
	require.NoError(t, err)
	require.Equal(t, c.Ticket(), ticket)
	var conns []net.Conn
	for _, hello := range []Hello{fakeHello("h10", "a", -1), fakeHello("h9", "b", -1),
		fakeHello("h11", "c", 7)} {
		conn, err := join(t, ticket, hello)
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	agents, err := c.Wait(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, []string{"h11", "h9", "h10"},
		[]string{agents[0].Name, agents[1].Name, agents[2].Name})
	require.Equal(t, netip.MustParseAddr("127.0.0.1"), agents[0].Address)
	require.Contains(t, log.all(), "h9 (127.0.0.1) joined")

	// The connection carries what comes next, unchanged.
	go func() { _, _ = agents[2].Conn.Write([]byte("from the coordinator")) }()
	got := make([]byte, 20)
	_, err = io.ReadFull(conns[0], got)
	require.NoError(t, err)
	require.Equal(t, "from the coordinator", string(got))

	_, err = join(t, ticket, fakeHello("h12", "d", -1))
	require.EqualError(t, err,
		"the coordinator refuses this agent: the run has its 3 agents already")
	for _, a := range agents {
		_ = a.Conn.Close()
	}
}

func TestMismatchedAgents(t *testing.T) {
	other := fakeHello("h1", "b", -1)
	other.Version = "0.0.1"
	built := fakeHello("h1", "b", -1)
	built.Runtime = "other"
	mistyped := fakeHello("h1", "b", -1)
	mistyped.UnknownFlag = "--patiense"
	other.UnknownFlag = "--of-its-own"
	for says, hello := range map[string]Hello{
		"it does not know the flag --patiense":                       mistyped,
		"it is of version 0.0.1, the coordinator of " + core.Version: other,
		"built from another measured runtime than the coordinator":   built,
		"h0 (127.0.0.1) is on the same machine: start one agent for each host": fakeHello("h1",
			"a", -1),
	} {
		t.Run(says, func(t *testing.T) {
			c, _ := listen(t, Options{})
			_, err := join(t, c.Ticket(), fakeHello("h0", "a", -1))
			require.NoError(t, err)
			_, err = join(t, c.Ticket(), hello)
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Reason, says)
			_, err = c.Wait(t.Context(), 2)
			require.ErrorContains(t, err, "agent on h1 (127.0.0.1): ")
			require.ErrorContains(t, err, says)
		})
	}
	c, _ := listen(t, Options{ShareMachine: true, AllowMixedRuntime: true})
	for range 2 {
		_, err := join(t, c.Ticket(), built)
		require.NoError(t, err)
	}
	_, err := c.Wait(t.Context(), 2)
	require.NoError(t, err)
}

// Strangers are refused and logged, and the run goes on.
func TestStrangers(t *testing.T) {
	c, log := listen(t, Options{})
	wrong := c.Ticket()
	wrong.Token[0]++
	_, err := join(t, wrong, fakeHello("h0", "a", -1))
	require.ErrorContains(t, err, "it does not know the token of this run")
	<-log.each
	require.Contains(t, log.all(), "refused a connection from 127.0.0.1:")
	require.Contains(t, log.all(), "it does not know the token of this run")

	conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	<-log.each
	require.Contains(t, log.all(), "it does not speak TLS")
	_, _ = io.Copy(io.Discard, conn)
	require.NoError(t, conn.Close())

	_, err = join(t, c.Ticket(), Hello{})
	require.Error(t, err)
	<-log.each
	require.Contains(t, log.all(), "is no host's name")

	_, err = join(t, c.Ticket(), fakeHello("h0", "a", -1))
	require.NoError(t, err)
	_, err = c.Wait(t.Context(), 1)
	require.NoError(t, err)
}

// TestSilentStrangers: connections that say nothing keep no agent out, however many they are.
func TestSilentStrangers(t *testing.T) {
	const limit = 4
	c, log := listen(t, Options{strangers: limit})
	var silent []net.Conn
	for range 3 * limit {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		defer conn.Close()
		silent = append(silent, conn)
	}
	_, err := join(t, c.Ticket(), fakeHello("h0", "a", -1))
	require.NoError(t, err)
	require.NoError(t, silent[0].SetReadDeadline(time.Now().Add(joinTimeout/2)))
	_, err = silent[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the oldest was closed before its time was up")
	_, err = c.Wait(t.Context(), 1)
	require.NoError(t, err)
	require.Contains(t, log.all(), "h0 (127.0.0.1) joined")
}

// TestManyStrangers: they do not fill the log.
func TestManyStrangers(t *testing.T) {
	c, log := listen(t, Options{refusals: 3})
	for range 10 {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		_, _ = io.Copy(io.Discard, conn) // until it is refused
		require.NoError(t, conn.Close())
	}
	_, err := join(t, c.Ticket(), fakeHello("h0", "a", -1))
	require.NoError(t, err)
	_, err = c.Wait(t.Context(), 1)
	require.NoError(t, err)
	c.Close()
	require.Equal(t, 3, strings.Count(log.all(), "refused a connection"), log.all())
	require.Equal(t, 1, strings.Count(log.all(), "more of them are not logged"))
}

// TestStrangersTimeOut: a connection that says nothing ends by itself, also one that has proved
// that it knows the token.
func TestStrangersTimeOut(t *testing.T) {
	c, log := listen(t, Options{timeout: 100 * time.Millisecond})
	config, err := c.Ticket().Token.config(agentRole, coordinatorRole)
	require.NoError(t, err)
	for name, stranger := range map[string]func(net.Conn) net.Conn{
		"no handshake": func(conn net.Conn) net.Conn { return conn },
		"no message":   func(conn net.Conn) net.Conn { return tls.Client(conn, config) },
	} {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.Copy(io.Discard, stranger(conn))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, name)
		require.NoError(t, conn.Close())
		<-log.each
	}
	require.Equal(t, 2, strings.Count(log.all(), "i/o timeout"), log.all())
}

// TestLongHandshakes: TLS reads no message of any length before it knows the other end.
func TestLongHandshakes(t *testing.T) {
	c, log := listen(t, Options{})
	config, err := c.Ticket().Token.config(agentRole, coordinatorRole)
	require.NoError(t, err)
	long := config.Clone()
	long.Certificates[0].Certificate = [][]byte{make([]byte, 300<<10)}
	for says, attack := range map[string]func(net.Conn){
		"message of length 8388607 bytes exceeds maximum of 65536": func(conn net.Conn) {
			// a ClientHello
			_, _ = conn.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0x7f, 0xff, 0xff},
				make([]byte, 16380)...))
		},
		"exceeds maximum of 262144 bytes": func(conn net.Conn) {
			_ = tls.Client(conn, long).Handshake()
		},
	} {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		attack(conn)
		<-log.each
		require.NoError(t, conn.Close())
		require.Contains(t, log.all(), says)
	}
}

// TestLateStrangers: once all agents have joined, strangers are answered one at a time, with a
// pause after each.
func TestLateStrangers(t *testing.T) {
	pauses, end := make(chan struct{}), make(chan struct{})
	c, log := listen(t, Options{pause: func() { pauses <- struct{}{}; <-end }})
	stranger := func() {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
		t.Cleanup(func() { _ = conn.Close() })
	}
	stranger()
	<-log.each // refused without a pause
	_, err := join(t, c.Ticket(), fakeHello("h0", "a", -1))
	require.NoError(t, err)
	<-log.each
	agents, err := c.Wait(t.Context(), 1)
	require.NoError(t, err)
	defer agents[0].Conn.Close()
	for n := range 3 {
		stranger()
		stranger()
		<-pauses
		<-log.each
		require.Equal(t, n+2, strings.Count(log.all(), "refused a connection"),
			"the next one waits")
		end <- struct{}{}
	}
	for range 3 {
		<-pauses
		end <- struct{}{}
	}
}

// TestReplay: what an agent sent in one connection is worth nothing in another.
func TestReplay(t *testing.T) {
	c, log := listen(t, Options{})
	wire, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer wire.Close()
	sent := make(chan []byte, 1)
	go func() { // a wire that records
		var recorded bytes.Buffer
		defer func() { sent <- recorded.Bytes() }()
		agent, err := wire.Accept()
		if err != nil {
			return
		}
		defer agent.Close()
		coordinator, err := net.Dial("tcp", c.Ticket().Addresses[0])
		if err != nil {
			return
		}
		defer coordinator.Close()
		go func() { _, _ = io.Copy(agent, coordinator) }()
		_, _ = io.Copy(io.MultiWriter(coordinator, &recorded), agent)
	}()
	conn, _, err := Join(t.Context(), Ticket{c.Ticket().Token, []string{wire.Addr().String()}},
		fakeHello("h0", "a", -1), 0)
	require.NoError(t, err)
	<-log.each // joined
	require.NoError(t, conn.Close())
	recorded := <-sent
	require.NotEmpty(t, recorded)

	again, err := net.Dial("tcp", c.Ticket().Addresses[0])
	require.NoError(t, err)
	_, err = again.Write(recorded)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, again)
	require.NoError(t, again.Close())
	<-log.each
	require.Contains(t, log.all(), "refused a connection")
	require.Equal(t, 1, strings.Count(log.all(), "joined"))
}

// TestImpossibleAgents: whoever has the ticket cannot make the coordinator fail, or write what it
// likes.
func TestImpossibleAgents(t *testing.T) {
	long := strings.Repeat("x", 300)
	for says, edit := range map[string]func(*Hello){
		`is no host's name`:                        func(h *Hello) { h.Name = "\x1b[2J" },
		`"transportbench:" is no host's name`:      func(h *Hello) { h.Name = "transportbench:" },
		"xxx\" is no host's name":                  func(h *Hello) { h.Name = long },
		"it has an impossible version":             func(h *Hello) { h.Version = long },
		"it has an impossible flag":                func(h *Hello) { h.UnknownFlag = long },
		"an impossible number -1 of -1 agents":     func(h *Hello) { h.Tasks = -1 },
		"an impossible number -1 of 99999999 agen": func(h *Hello) { h.Tasks = 99999999 },
		"an impossible number -7 of 0 agents":      func(h *Hello) { h.Index = -7 },
		"an impossible processor -1":               func(h *Hello) { h.CPUs[0].ID = -1 },
		"at most 65536 are allowed": func(h *Hello) {
			h.Environment.Identity.CPU = strings.Repeat("x", 1<<17)
		},
		"at most 4194304 are allowed": func(h *Hello) {
			h.Environment.Identity.CPU = strings.Repeat("x", 5<<20)
		},
		"it has impossible libraries": func(h *Hello) {
			h.Libraries = map[string]string{"libucp": strings.Repeat("x", 5000)}
		},
		"an interface with an impossible name": func(h *Hello) {
			h.Interfaces = []machine.NetworkDevice{{Name: long}}
		},
	} {
		t.Run(says, func(t *testing.T) {
			c, log := listen(t, Options{})
			hello := fakeHello("h0", "a", -1)
			edit(&hello)
			_, err := join(t, c.Ticket(), hello)
			require.Error(t, err)
			<-log.each
			require.Contains(t, log.all(), says)
			require.Less(t, len(log.all()), 500)
			require.NotContains(t, log.all(), "\x1b")
			_, err = join(t, c.Ticket(), fakeHello("h0", "a", -1))
			require.NoError(t, err, "the run goes on")
		})
	}
}

// TestOtherVersions: the first message of any version tells the version, whatever else it says.
func TestOtherVersions(t *testing.T) {
	c, _ := listen(t, Options{})
	ended := make(chan error, 1)
	go func() { _, err := c.Wait(t.Context(), 2); ended <- err }()
	config, err := c.Ticket().Token.config(agentRole, coordinatorRole)
	require.NoError(t, err)
	raw, err := net.Dial("tcp", c.Ticket().Addresses[0])
	require.NoError(t, err)
	defer raw.Close()
	conn, err := handshake(raw, tls.Client, config, joinTimeout)
	require.NoError(t, err)
	require.NoError(t, writeMessage(conn, map[string]any{"version": "9.9.9", "name": "h7",
		"cpus": "all of them", "since": 12}))
	var a answer
	require.NoError(t, readMessage(conn, longestAnswer, &a))
	require.Contains(t, a.Refusal, `it is of version 9.9.9, the coordinator of `)
	require.ErrorContains(t, <-ended, `agent on h7 (127.0.0.1): it is of version 9.9.9`)
}

// TestImpossibleCoordinator: whoever has the ticket cannot write what it likes at an agent.
func TestImpossibleCoordinator(t *testing.T) {
	token := Token{9}
	config, err := token.config(coordinatorRole, agentRole)
	require.NoError(t, err)
	for says, reply := range map[string][]byte{
		`refuses this agent: \x1b[2J\nforged`: []byte("\x00\x00\x00\x24" +
			`{"refusal":"\u001b[2J\nforged     "}`),
		"a message of 2147483647 bytes; at most 4096 are allow": []byte("\x7f\xff\xff\xff"),
		"unexpected end of JSON input":                          {0, 0, 0, 0},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			if conn, err := handshake(conn, tls.Server, config, joinTimeout); err == nil {
				_, _ = readHello(conn)
				_, _ = conn.Write(reply)
			}
		}()
		_, err = join(t, Ticket{token, []string{l.Addr().String()}}, fakeHello("h0", "a", -1))
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "\n")
		require.NoError(t, l.Close())
	}
}

// An agent does not join a coordinator that does not know its token.
func TestForeignCoordinator(t *testing.T) {
	c, _ := listen(t, Options{})
	ticket := Ticket{Token: Token{1, 2, 3}, Addresses: c.Ticket().Addresses}
	_, err := join(t, ticket, fakeHello("h0", "a", -1))
	require.ErrorContains(t, err, "it does not know the token of this run")
}

func TestJoinWaitsForTheCoordinator(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	token := Token{7}
	joined, waited := make(chan error, 1), make(chan struct{})
	go func() {
		conn, _, err := Join(t.Context(), Ticket{token, []string{address}},
			fakeHello("h0", "a", -1), time.Minute)
		if err == nil {
			<-waited
			_ = conn.Close()
		}
		joined <- err
	}()
	c, err := Listen(address, Options{Token: token})
	require.NoError(t, err)
	defer c.Close()
	agents, err := c.Wait(t.Context(), 1)
	close(waited)
	require.NoError(t, err)
	require.NoError(t, <-joined)
	_ = agents[0].Conn.Close()
}

// TestWaitTells: while agents are missing, the user reads how many have joined.
func TestWaitTells(t *testing.T) {
	c, log := listen(t, Options{})
	c.tellEvery = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := c.Wait(ctx, 2); ended <- err }()
	<-log.each
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Contains(t, log.all(), "waiting for agents: 0 of 2 joined")
}

// TestAgentIsLostBeforeOthersJoin: the run does not wait for the others. What an agent sends before
// it ends is not read by then.
func TestAgentIsLostBeforeOthersJoin(t *testing.T) {
	c, _ := listen(t, Options{})
	_, err := join(t, c.Ticket(), fakeHello("h0", "a", -1))
	require.NoError(t, err)
	conn, err := join(t, c.Ticket(), fakeHello("h1", "b", -1))
	require.NoError(t, err)
	_, err = conn.Write([]byte("settings"))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { _, err := c.Wait(t.Context(), 3); ended <- err }()
	require.NoError(t, conn.Close())
	require.EqualError(t, <-ended,
		"waiting for agents: 2 of 3 joined: host h1 (127.0.0.1) is lost: its agent ended")
}

func TestWaitEndsWithItsContext(t *testing.T) {
	c, _ := listen(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("srun failed"))
	_, err := c.Wait(ctx, 2)
	require.EqualError(t, err, "waiting for agents: 0 of 2 joined: srun failed")
}

// Close ends connections that never say anything.
func TestCloseWhileSomebodyJoins(t *testing.T) {
	c, _ := listen(t, Options{})
	conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
	require.NoError(t, err)
	defer conn.Close()
	c.Close()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestTickets(t *testing.T) {
	for _, text := range []string{
		"", "tb1-", "tb1-00112233445566778899aabbccddeeff", "tb1-00112233445566778899aabbccddeeff@",
		"tb1-00112233445566778899aabbccddeeff@host", "tb1-00112233445566778899aabbccddeeff@host:0",
		"tb1-00112233445566778899aabbccddeefg@host:1", "tb1-0011@host:1",
		"tb2-00112233445566778899aabbccddeeff@host:1",
		"tb1-00112233445566778899aabbccddeeff@a b:1", "tb1-00112233445566778899aabbccddeeff@" +
			strings.Repeat("a:1,", 40) + "a:1",
	} {
		_, err := ParseTicket(text)
		require.ErrorIs(t, err, errTicket, text)
	}
	ticket, err := ParseTicket("tb1-00112233445566778899aabbccddeeff@host:1,[fd00::1]:2")
	require.NoError(t, err)
	require.Equal(t, []string{"host:1", "[fd00::1]:2"}, ticket.Addresses)
}

func TestShorten(t *testing.T) {
	whole := Ticket{Addresses: []string{"10.0.0.1:1", "[fd00::1]:1", "[fd00::2]:1"}}
	length := len(whole.String())
	require.Equal(t, whole, whole.Shorten(length))
	require.Equal(t, whole.Addresses[:2], whole.Shorten(length-1).Addresses)
	require.Equal(t, whole.Addresses[:1], whole.Shorten(0).Addresses)
}

func TestAddresses(t *testing.T) {
	prefix := func(text string) net.Addr {
		ip, network, err := net.ParseCIDR(text)
		require.NoError(t, err)
		network.IP = ip
		return network
	}
	local := []net.Addr{prefix("127.0.0.1/8"), prefix("fd00::5/64"), prefix("fe80::1/64"),
		prefix("10.0.0.5/24")}
	all := netip.MustParseAddrPort("[::]:7177")
	require.Equal(t, []string{"10.0.0.5:7177", "[fd00::5]:7177"}, addresses(all, local))
	require.Equal(t, []string{"127.0.0.1:7177"}, addresses(all, local[:1]))
	require.Equal(t, []string{"10.0.0.5:7177"},
		addresses(netip.MustParseAddrPort("0.0.0.0:7177"), local))
	require.Equal(t, []string{"192.0.2.1:1"},
		addresses(netip.MustParseAddrPort("192.0.2.1:1"), local))
}

func TestNaturally(t *testing.T) {
	for _, pair := range [][2]string{{"h2", "h10"}, {"a", "b"}, {"h1", "h1a"}, {"h1-9", "h1-10"},
		{"h", "h1"}, {"h01", "h2"}} {
		require.Negative(t, naturally(pair[0], pair[1]), pair)
		require.Positive(t, naturally(pair[1], pair[0]), pair)
	}
	require.Zero(t, naturally("h1", "h1"))
}

func TestLayout(t *testing.T) {
	names := []string{"h0", "h1", "h2"}
	for _, c := range []struct {
		perHost int
		list    string
		ranks   int
		want    []int
		fails   string
	}{
		{ranks: 5, want: []int{0, 1, 2, 0, 1}},
		{perHost: 2, ranks: 5, want: []int{0, 0, 1, 1, 2}},
		{perHost: 1, ranks: 4, fails: "--ranks-per-host: 1 on each of 3 hosts"},
		{list: "h2,h0,1", ranks: 3, want: []int{2, 0, 1}},
		{list: "h2", ranks: 2, fails: "--map has the hosts of 1 ranks"},
		{list: "h3", fails: `--map: "h3" is no host of this run; they are h0, h1, h2`},
		{list: "3", fails: `--map: "3" is no host`},
		{perHost: 1, list: "h0", fails: "exclude each other"},
		{list: "h0 device", fails: `--map: "device" is no option of a transport`},
	} {
		l, err := NewLayout(names, c.perHost, c.list)
		var got []int
		if err == nil {
			got, err = l.Hosts(c.ranks)
		}
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestLayoutOptions(t *testing.T) {
	l, err := NewLayout([]string{"h0", "h1"}, 0, "h0 device=mlx5_0,h1,h1 device=mlx5_2 port=2")
	require.NoError(t, err)
	got, err := l.Hosts(3)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 1}, got)
	l.SetOptions(0, map[string]string{"port": "1"})
	require.Equal(t, map[string]string{"device": "mlx5_0", "port": "1"}, l.Options(0))
	require.Equal(t, map[string]string{"device": "mlx5_2", "port": "2"}, l.Options(1))
	require.Equal(t, []OwnOptions{{"h0", l.Options(0)}, {"h1", l.Options(1)}}, l.OwnOptions())
}

// TestDevice finds the network device of a transport's options in an imitated machine of two nodes.
func TestDevice(t *testing.T) {
	root := machine.Root(t.TempDir())
	for name, text := range map[string]string{
		"eth0/device/numa_node": "0", "eth1/device/numa_node": "1", "eth2/device/numa_node": "1",
		"lo/mtu": "65536", "bond0/lower_eth1/mtu": "", "bond0/lower_eth2/mtu": "",
		"vlan/lower_bond0/mtu":  "",
		"bridge/lower_eth0/mtu": "", "bridge/lower_eth1/mtu": "",
	} {
		path := root.Path("sys/class/net", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	var h Hello
	for i, name := range []string{"lo", "eth0", "eth1", "bond0", "vlan", "bridge"} {
		h.Interfaces = append(h.Interfaces,
			machine.NetworkDevice{Name: name, Node: root.InterfaceNode(name),
				Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i), 1})}})
	}
	rdma := []machine.RDMADevice{{Name: "mlx5_0", Node: 0}, {Name: "mlx5_1", Node: 1}}
	for _, c := range []struct {
		options map[string]string
		rdma    int // devices
		name    string
		node    int
	}{
		{options: map[string]string{"address": "10.0.2.1"}, name: "eth1", node: 1},
		{options: map[string]string{"address": "10.0.1.0/24"}, name: "eth0", node: 0},
		{options: map[string]string{"address": "10.0.0.1"}, name: "lo", node: -1},
		{options: map[string]string{"address": "10.0.3.1"}, name: "bond0", node: 1},
		{options: map[string]string{"address": "10.0.4.1"}, name: "vlan", node: 1},
		// over two nodes
		{options: map[string]string{"address": "10.0.5.1"}, name: "bridge", node: -1},
		{options: map[string]string{"address": "10.9.9.9"}},
		{options: map[string]string{"address": "10.0.1.1", "interface": "eth1"}, name: "eth1",
			node: 1},
		{options: map[string]string{"device": "mlx5_1"}, rdma: 2, name: "mlx5_1", node: 1},
		{options: map[string]string{"net-devices": "mlx5_1:1"}, rdma: 2, name: "mlx5_1", node: 1},
		{options: map[string]string{"net-devices": "mlx5_1:1,mlx5_0:1"}, rdma: 2},
		{options: map[string]string{"domain": "nowhere"}},
		{options: map[string]string{"device": "", "provider": "verbs"}, rdma: 1, name: "mlx5_0",
			node: 0},
		{options: map[string]string{"device": "", "provider": "verbs"}, rdma: 2},
		{options: map[string]string{"device": "", "provider": "auto", "address": "10.0.2.1"},
			rdma: 2},
		{options: map[string]string{"device": "", "provider": "auto", "address": "10.0.2.1"},
			name: "eth1", node: 1},
		{options: map[string]string{"device": "", "provider": "udp", "address": "10.0.2.1"},
			rdma: 2, name: "eth1", node: 1},
		{},
	} {
		h.Environment.Identity.RDMA = rdma[:c.rdma]
		d := h.Device(rolesOf(c.options), c.options)
		if c.name == "" {
			require.Nil(t, d, c.options)
			continue
		}
		require.NotNil(t, d, c.options)
		require.Equal(t, c.name, d.Name, c.options)
		require.Equal(t, c.node, d.Node, c.options)
	}
}

// rolesOf returns the roles of a transport with these options.
func rolesOf(options map[string]string) (r transport.Roles) {
	for option := range options {
		switch option {
		case "address":
			r.Address = option
		case "provider":
			r.Provider = option
		default:
			r.Device = option
		}
	}
	return r
}

func TestNewHello(t *testing.T) {
	h, err := NewHello()
	require.NoError(t, err)
	var message bytes.Buffer
	require.NoError(t, writeMessage(&message, h))
	message.WriteString("next")
	got, err := readHello(&message)
	require.NoError(t, err)
	require.Equal(t, h, got)
	require.Equal(t, "next", message.String())
}

func TestReach(t *testing.T) {
	h := fakeHello("h0", "a", 1)
	h.Address = netip.MustParseAddr("192.168.0.7")
	h.Interfaces = []machine.NetworkDevice{
		{Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("fe80::1%eth0"),
			netip.MustParseAddr("10.0.1.7")}}}
	for address, want := range map[string]string{
		"": "192.168.0.7", "0.0.0.0": "192.168.0.7", "10.0.9.9": "10.0.9.9",
		"10.0.0.0/16": "10.0.1.7", "10.9.0.0/16": "192.168.0.7",
	} {
		require.Equal(t, want, h.Reach(address).String(), address)
	}
}

// FuzzHello reads what anybody with the token may send.
func FuzzHello(f *testing.F) {
	var message bytes.Buffer
	require.NoError(f, writeMessage(&message, fakeHello("h0", "a", 1)))
	f.Add(slices.Clone(message.Bytes()))
	engine := fakeHello("h0", "a", 0)
	engine.Tasks = 1
	engine.Interfaces = []machine.NetworkDevice{
		{Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}}
	message.Reset()
	require.NoError(f, writeMessage(&message, engine))
	f.Add(slices.Clone(message.Bytes()))
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readHello(bytes.NewReader(data))
		if err == nil {
			require.NotEmpty(t, h.Name)
			require.NotContains(t, h.Name, "\x1b")
			if len(h.CPUs) == 0 { // only its version was read, by which it is refused
				require.NotContains(t, []string{"", core.Version}, h.Version)
				return
			}
			_ = h.Device(transport.Roles{Address: "address", Device: "device"},
				map[string]string{"address": "10.0.0.0/8", "device": h.Name})
			c := &Coordinator{agents: []*Agent{{Hello: h, joined: true}}}
			agents, err := c.complete()
			require.Equal(t, h.Tasks == 1, len(agents) == 1 && err == nil)
		}
	})
}

// FuzzTicket parses what a user may paste.
func FuzzTicket(f *testing.F) {
	f.Add("tb1-00112233445566778899aabbccddeeff@host:1,[fd00::1]:2")
	f.Fuzz(func(t *testing.T, text string) {
		ticket, err := ParseTicket(text)
		if err != nil {
			return
		}
		again, err := ParseTicket(ticket.String())
		require.NoError(t, err)
		require.Equal(t, ticket, again)
		require.NotContains(t, ticket.String(), " ")
	})
}

// FuzzCoordinator sends arbitrary bytes to the port of a coordinator, which must refuse them and go
// on.
func FuzzCoordinator(f *testing.F) {
	log := make(chan string, 1)
	c, err := Listen("127.0.0.1:0", Options{Log: func(line string) { log <- line },
		refusals: math.MaxInt})
	require.NoError(f, err)
	f.Cleanup(c.Close)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := net.Dial("tcp", c.Ticket().Addresses[0])
		require.NoError(t, err)
		_, _ = conn.Write(data)
		require.NoError(t, conn.Close())
		require.Contains(t, <-log, "refused a connection")
	})
}
