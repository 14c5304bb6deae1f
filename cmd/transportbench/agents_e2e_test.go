package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/lab/experiment/hosts/engine"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// namespaces are hosts of scripts/cluster.sh.
type namespaces struct {
	script string   // process number of the script, in whose network the switch is
	pids   []string // of a process on each host
	tmp    string
}

// startNamespaces starts n hosts, which end with the test, however that ends. The script takes
// flags.
func startNamespaces(t *testing.T, n int, flags ...string) *namespaces {
	cannot := t.Skipf
	if os.Getenv("CI_REQUIRE_NAMESPACES") != "" {
		cannot = t.Fatalf
	}
	if os.Geteuid() != 0 {
		cannot("hosts of namespaces need root: run the tests as root")
	}
	for _, program := range []string{"ip", "nsenter", "unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			cannot("hosts of namespaces need %s: run scripts/setup.sh all", program)
		}
	}
	cmd := exec.Command("../../scripts/cluster.sh", append(flags, fmt.Sprint(n))...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	alive, err := cmd.StdinPipe() // the hosts end when it is closed
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = alive.Close()
		require.NoError(t, cmd.Wait(), problems.String())
	})
	h := &namespaces{script: fmt.Sprint(cmd.Process.Pid), tmp: shortTempDir(t)}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		_, pid, _ := strings.Cut(lines.Text(), " ")
		h.pids = append(h.pids, pid)
	}
	require.Len(t, h.pids, n, problems.String())
	return h
}

// cable connects a host with the switch, or cuts it off: nobody is told.
func (h *namespaces) cable(t *testing.T, host int, state string) {
	out, err := exec.Command("nsenter", "--target", h.script, "--net", "ip", "link", "set",
		fmt.Sprintf("p%d", host), state).CombinedOutput()
	require.NoError(t, err, string(out))
}

// program is a command on a host.
type program struct {
	*exec.Cmd
	host   int
	output *output // standard error
	stdout bytes.Buffer
}

// output collects text and can be waited on.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns the match of pattern once it is there.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	timeout := time.After(time.Minute)
	for {
		if found := expression.FindString(o.String()); found != "" {
			return found
		}
		select {
		case <-o.changed:
		case <-timeout:
			t.Fatalf("no %q in:\n%s", pattern, o)
		}
	}
}

// start starts the command on a host.
func (h *namespaces) start(t *testing.T, host int, env []string, args ...string) *program {
	t.Helper()
	directory, err := os.Getwd()
	require.NoError(t, err)
	enter := []string{"--target", h.pids[host], "--all", "--wd=" + directory, "--",
		filepath.Join(bin, "transportbench")}
	p := &program{Cmd: exec.Command("nsenter", append(enter, args...)...), host: host,
		output: &output{changed: make(chan struct{}, 1)}}
	p.Env = append(append(os.Environ(), "TMPDIR="+h.tmp, "XDG_CONFIG_HOME="+h.tmp,
		"XDG_STATE_HOME="+h.tmp), env...)
	p.Stdout, p.Stderr = &p.stdout, p.output
	p.WaitDelay = 10 * time.Second
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// end waits for the end and returns the exit status.
func (p *program) end(t *testing.T) int {
	t.Helper()
	_ = p.Wait()
	require.NotNil(t, p.ProcessState)
	return p.ProcessState.ExitCode()
}

// coordinate starts a run on host 0 and returns it with its ticket.
func (h *namespaces) coordinate(t *testing.T, agents int, args ...string) (*program, string) {
	t.Helper()
	p := h.start(t, 0, nil, append([]string{"run", "--listen", "10.78.0.1:7177", "--agents",
		fmt.Sprint(agents), "--json",
		"--out", t.TempDir(), "--repeats", "1", "--duration", window, "--warmup", "20ms"},
		args...)...)
	return p, p.output.await(t, `tb1-\S+`)
}

func (h *namespaces) join(t *testing.T, host int, ticket string) *program {
	t.Helper()
	return h.start(t, host, []string{engine.TicketVariable + "=" + ticket}, "agent",
		"--patience", "10ms")
}

// requireIdle waits until no process of a run is left on any host.
func (h *namespaces) requireIdle(t *testing.T) {
	t.Helper()
	for _, pid := range h.pids {
		require.Eventually(t, func() bool {
			left, _ := exec.Command("nsenter", "--target", pid, "--all", "--", "pgrep", "--full",
				bin).Output()
			return len(left) == 0
		}, 25*time.Second, 50*time.Millisecond, "a process is left")
	}
}

// kill ends a program on its host without a chance to say so.
func (h *namespaces) kill(t *testing.T, p *program) { h.signal(t, p, "KILL") }

func (h *namespaces) signal(t *testing.T, p *program, name string) {
	t.Helper()
	out, err := exec.Command("nsenter", "--target", h.pids[p.host], "--all", "--", "pkill",
		"-"+name, "--full", "--exact", strings.Join(p.Args[6:], " ")).CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestAgents runs ranks on hosts that are namespaces with a wire between them.
func TestAgents(t *testing.T) {
	h := startNamespaces(t, 3)
	for name, c := range map[string]struct {
		ranks, hosts int
		args         []string
		placed       []string
	}{
		"tcpx": {2, 2, []string{"--transport", "tcpx", "--in-flight", "4"}, []string{"h1", "h2"}},
		"erpc": {2, 2, []string{"--transport", "erpc", "--set", "provider=udp", "--set",
			"address=10.78.0.0/24"}, []string{"h1", "h2"}},
		"mesh": {6, 3, []string{"--transport", "tcpx", "--topology", "mesh-proxied", "--ranks", "6",
			"--set", "mode=auto", "--verbose", "--witness"},
			[]string{"h0", "h1", "h2", "h0", "h1", "h2"}},
		"map": {3, 2, []string{"--transport", "sockets", "--topology", "mesh-direct", "--ranks",
			"3", "--map", "h2,1,h1", "--verbose"}, []string{"h2", "h2", "h1"}},
	} {
		if testing.Short() && name != "mesh" {
			continue // scripts/test.sh long runs all
		}
		t.Run(name, func(t *testing.T) {
			run, ticket := h.coordinate(t, c.hosts, c.args...)
			var agents []*program
			for host := range c.hosts {
				agents = append(agents, h.join(t, host+3-c.hosts, ticket))
			}
			run.end(t) // checks of the rate may fail
			for _, a := range agents {
				require.Zero(t, a.end(t), a.output)
			}
			r, err := result.Parse(run.stdout.Bytes())
			require.NoError(t, err, run.output.String())
			if name == "mesh" {
				for rank, host := range c.placed {
					require.Regexp(t, fmt.Sprintf(
						`(?m)^%s: rank %d: .*level=INFO msg="tcpx: mode auto took`, host, rank),
						run.output.String(), "what a rank logs")
				}
				requireWitness(t, r)
			}
			requireVerified(t, r)
			require.Positive(t, r.Summary[result.Throughput].Median)
			require.Positive(t, r.Summary[result.Floor].Median, r.Repeats[0].Before.Note)
			require.Len(t, r.Hosts, c.hosts)
			for rank, p := range r.Placement {
				require.Equal(t, c.placed[rank], p.Host)
			}
			for _, host := range r.Hosts {
				require.Equal(t, "10.78.0."+fmt.Sprint(host.Name[1]-'0'+1), host.Address)
				require.NotEqual(t, name == "erpc", host.Options["address"] == host.Address,
					"its own address, unless a network was given")
			}
			if c.ranks > c.hosts {
				requireKinds(t, r)
			}
			for _, check := range r.Checks {
				if check.Name == "machines" || check.Name == "path" {
					require.True(t, check.OK, check.Message)
				}
			}
			h.requireIdle(t)
		})
	}
	t.Run("shm is refused", func(t *testing.T) {
		run, ticket := h.coordinate(t, 2, "--transport", "shm")
		h.join(t, 1, ticket)
		h.join(t, 2, ticket)
		require.Equal(t, 1, run.end(t))
		last := strings.Split(strings.TrimSpace(run.output.String()), "\n")
		require.Contains(t, last[len(last)-1], "it was opened on memory (provider memfd), which "+
			"does not cross machines, and the ranks are on h1, h2")
		h.requireIdle(t)
	})
	t.Run("strangers and late agents", func(t *testing.T) {
		inLongTests(t)
		run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--duration", "1s")
		wrong := h.join(t, 1, strings.Replace(ticket, ticket[4:8], "0000", 1))
		require.Equal(t, 1, wrong.end(t))
		require.Contains(t, wrong.output.String(), "it does not know the token of this run")
		h.join(t, 1, ticket)
		h.join(t, 2, ticket)
		run.output.await(t, "(?s)joined.*joined")
		late := h.join(t, 0, ticket)
		require.Equal(t, 1, late.end(t))
		require.Contains(t, late.output.String(),
			"the coordinator refuses this agent: the run has its 2 agents already")
		run.end(t)
		r, err := result.Parse(run.stdout.Bytes())
		require.NoError(t, err, run.output.String())
		require.False(t, r.Incomplete)
		require.Contains(t, run.output.String(), "refused a connection from 10.78.0.2")
		require.Contains(t, run.output.String(), "refused a connection from 10.78.0.1:",
			"the late one")
		h.requireIdle(t)
	})
	t.Run("sweep", func(t *testing.T) {
		inLongTests(t)
		out := t.TempDir()
		run := h.start(t, 0, nil, "sweep", "--listen", "10.78.0.1:7177", "--agents", "2",
			"--transport", "tcpx,shm", "--in-flight", "1,2",
			"--repeats", "1", "--duration", window, "--warmup", "20ms", "--out", out, "--json")
		ticket := run.output.await(t, `tb1-\S+`)
		h.join(t, 1, ticket)
		h.join(t, 2, ticket)
		run.end(t) // checks may fail
		s, err := set.Load(out)
		require.NoError(t, err)
		require.Len(t, s.Cells, 4)
		for _, cell := range s.Cells {
			if cell.Transport() == "shm" {
				require.Equal(t, set.Unavailable, cell.Status)
				require.Contains(t, cell.Reason, "does not cross machines")
			} else {
				require.Equal(t, set.Measured, cell.Status, cell.Reason)
			}
		}
		h.requireIdle(t)
	})
	t.Run("a sweep that loses a host", func(t *testing.T) {
		inLongTests(t)
		out := t.TempDir()
		sweep := func(args ...string) (run, second *program) {
			run = h.start(t, 0, nil, append([]string{"sweep", "--listen", "10.78.0.1:7177",
				"--agents", "2", "--transport", "tcpx", "--in-flight", "1,2,3",
				"--order", "sequential", "--repeats", "1", "--duration", "500ms", "--warmup",
				"20ms", "--out", out, "--json"}, args...)...)
			ticket := run.output.await(t, `tb1-\S+`)
			h.join(t, 1, ticket)
			return run, h.join(t, 2, ticket)
		}
		run, second := sweep()
		run.output.await(t, `\(1 of 3\)`)
		h.kill(t, second)
		require.Equal(t, 1, run.end(t))
		require.Equal(t, 1, strings.Count(run.output.String(), "host h2 is lost: its agent ended"),
			run.output)
		require.Contains(t, run.output.String(), "to continue, repeat the command with --resume")
		s, err := set.Load(out)
		require.NoError(t, err)
		for _, cell := range s.Cells {
			require.NotEqual(t, set.Failed, cell.Status, cell.Reason)
		}
		run, _ = sweep("--resume")
		run.end(t) // checks may fail
		s, err = set.Load(out)
		require.NoError(t, err)
		require.Len(t, s.Cells, 3)
		for _, cell := range s.Cells {
			require.Equal(t, set.Measured, cell.Status, cell.Reason)
		}
		h.requireIdle(t)
	})
	t.Run("transports after a host is lost", func(t *testing.T) {
		inLongTests(t)
		run, ticket := h.coordinate(t, 2, "--transport", "tcpx,sockets,erpc", "--duration", "500ms",
			"--repeats", "200", "--launches", "1")
		h.join(t, 1, ticket)
		second := h.join(t, 2, ticket)
		run.output.await(t, "repeat 2 of 200")
		h.kill(t, second)
		require.Equal(t, 1, run.end(t))
		require.Contains(t, run.output.String(), "a host is lost, so 2 transports did not run")
		require.NotContains(t, run.output.String(), "[2/3]")
		require.Regexp(t, `(?m)^transportbench: .*host h2 is lost: `, run.output.String())
		h.requireIdle(t)
	})
	t.Run("ab keeps its rounds when a host is lost", func(t *testing.T) {
		inLongTests(t)
		out := t.TempDir()
		run := h.start(t, 0, nil, "ab", "--listen", "10.78.0.1:7177", "--agents", "2",
			"--transport", "tcpx", "--duration", "500ms", "--warmup", "20ms",
			"--out", out, "--repeats", "100", "--max-repeats", "100", "--a", "in-flight=1", "--b",
			"in-flight=2")
		ticket := run.output.await(t, `tb1-\S+`)
		h.join(t, 1, ticket)
		second := h.join(t, 2, ticket)
		run.output.await(t, "repeat 2 of ")
		h.kill(t, second)
		require.Equal(t, 1, run.end(t), run.output)
		require.Contains(t, run.output.String(), "a run failed after ")
		require.Equal(t, 1, strings.Count(run.output.String(), "host h2 is lost: "), run.output)
		kept, err := filepath.Glob(filepath.Join(out, "*.json"))
		require.NoError(t, err)
		require.Len(t, kept, 2)
		h.requireIdle(t)
	})
	t.Run("a network that no host has", func(t *testing.T) {
		inLongTests(t)
		run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--set", "address=10.99.0.0/16")
		h.join(t, 1, ticket)
		h.join(t, 2, ticket)
		require.Equal(t, 2, run.end(t))
		require.Regexp(t,
			`transportbench: --set: on h[12]: option "address": this host has no address in 10\.99\.0\.0/16; it has .*10\.78\.0\.[23]`, run.output.String())
		h.requireIdle(t)
	})
	t.Run("micro setup", func(t *testing.T) {
		inLongTests(t)
		run := h.start(t, 0, nil, "micro", "tcpx", "setup", "--listen", "10.78.0.1:7177",
			"--agents", "2", "--connections", "4", "--duration", "1ms", "--json")
		ticket := run.output.await(t, `tb1-\S+`)
		h.join(t, 1, ticket)
		h.join(t, 2, ticket)
		require.Zero(t, run.end(t), run.output)
		var phases []struct {
			Connections int
			Metric      string
			Values      []float64
		}
		require.NoError(t, json.Unmarshal(run.stdout.Bytes(), &phases))
		var names []string
		for _, p := range phases {
			require.Equal(t, 4, p.Connections)
			require.NotEmpty(t, p.Values)
			names = append(names, p.Metric)
		}
		require.Equal(t, []string{result.SetupOpen, result.SetupConnect, result.SetupConnectAll,
			result.FirstCall, result.Teardown}, names)
		h.requireIdle(t)
	})
	t.Run("two on one machine", func(t *testing.T) {
		run, ticket := h.coordinate(t, 2, "--transport", "tcpx")
		h.join(t, 1, ticket)
		run.output.await(t, "joined")
		second := h.join(t, 1, ticket)
		require.Equal(t, 1, second.end(t))
		require.Equal(t, 1, run.end(t))
		require.Contains(t, run.output.String(), "agent on h1 (10.78.0.2): h1 (10.78.0.2) is on "+
			"the same machine: start one agent for each host (srun --ntasks-per-node=1, mpirun "+
			"--map-by node), or pass --share-machine")
		h.requireIdle(t)
	})
	t.Run("an agent is killed before the others join", func(t *testing.T) {
		run, ticket := h.coordinate(t, 2, "--transport", "tcpx")
		agent := h.join(t, 1, ticket)
		run.output.await(t, "h1 .* joined")
		h.kill(t, agent)
		require.Equal(t, 1, run.end(t))
		require.Contains(t, run.output.String(),
			"waiting for agents: 1 of 2 joined: host h1 (10.78.0.2) is lost: its agent ended")
		h.requireIdle(t)
	})
	t.Run("an agent is killed", func(t *testing.T) {
		inLongTests(t)
		h.lose(t, "agent", func(agent, _ *program) { h.kill(t, agent) },
			`host h2 is lost: its agent ended`)
	})
	t.Run("the coordinator is killed", func(t *testing.T) {
		h.lose(t, "coordinator", func(_, run *program) { h.kill(t, run) }, "")
	})
}

// TestAgentsInContainers runs ranks in network namespaces of one machine, as in pods of a node:
// they use the addresses by which they joined, and share out the processors of the machine.
func TestAgentsInContainers(t *testing.T) {
	inLongTests(t)
	h := startNamespaces(t, 3, "-o")
	run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--share-machine", "--idle", "yield")
	h.join(t, 1, ticket)
	h.join(t, 2, ticket)
	run.end(t) // checks of the rate may fail
	r, err := result.Parse(run.stdout.Bytes())
	require.NoError(t, err, run.output.String())
	requireVerified(t, r)
	require.Len(t, r.Hosts, 2)
	require.Equal(t, r.Hosts[0].Machine, r.Hosts[1].Machine)
	for _, host := range r.Hosts {
		require.Equal(t, host.Address, host.Options["address"])
	}
	if processors := len(r.Hosts[0].CPUs); processors > 1 {
		require.NotEqual(t, r.Placement[0].CPUs, r.Placement[1].CPUs)
	}
	h.requireIdle(t)
}

// TestAgentsOfOneMachine joins sixteen agents, whose ranks all connect to each other, and requires
// the times that docs/hosts.md draws its curve from.
func TestAgentsOfOneMachine(t *testing.T) {
	inLongTests(t)
	i := command(t, "run", "--launch",
		`sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do "$0" "$@" & done; wait'`,
		"--agents", "16",
		"--share-machine", "--transport", "tcpx", "--topology", "mesh-direct", "--ranks", "16",
		"--idle", "yield", "--repeats", "1",
		"--duration", window, "--warmup", "20ms", "--json")
	i.run(t) // checks of the rate may fail
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err, i.stderr.String())
	requireVerified(t, r)
	require.Len(t, r.Repeats[0].Ranks, 16)
	hosts := map[string]bool{}
	for _, p := range r.Placement {
		hosts[p.Host] = true
	}
	require.Len(t, hosts, 16)
	var steps []string
	for _, step := range r.Setup.Steps {
		require.Positive(t, step.MS, step.Name)
		steps = append(steps, step.Name)
	}
	require.Equal(t, []string{"join", "describe", "launch", "prepare", "connect", "warmup"},
		steps[:6])
	require.Positive(t, r.Setup.CollectMS)
	require.Positive(t, r.Setup.CloseMS)
}

// requireWitness checks that the reference tool ran between two hosts, if it is installed.
func requireWitness(t *testing.T, r *result.Result) {
	if _, err := exec.LookPath("sockperf"); err != nil {
		require.Regexp(t, `^host h\d: sockperf is not installed: apt install sockperf$`,
			r.Witness.Missing)
		return
	}
	require.Empty(t, r.Witness.Missing)
	require.Positive(t, r.Repeats[0].Before.Witness.Samples)
	require.Positive(t, r.Repeats[0].After.Witness.Samples)
	for _, line := range [][]string{r.Witness.Server, r.Witness.Client} {
		require.Regexp(t, `^taskset -c \d+ sockperf \S+ -i 10\.78\.0\.[123] `,
			strings.Join(line, " "))
	}
}

// requireKinds checks that each kind of call that completed has its own metrics.
func requireKinds(t *testing.T, r *result.Result) {
	t.Helper()
	kinds := map[string]bool{}
	for _, rank := range r.Repeats[0].Ranks {
		for _, client := range rank.Clients {
			require.Len(t, client.Kinds, 3)
			// after calls to the own rank
			for i, kind := range []string{result.WithinMachine, result.BetweenMachines} {
				if client.Kinds[i+1].Count > 0 {
					kinds[kind] = true
				}
			}
		}
	}
	require.NotEmpty(t, kinds)
	for kind := range kinds {
		require.Positive(t, r.Summary[result.Throughput+kind].Median, kind)
	}
	require.Positive(t, r.Summary[result.Floor+result.BetweenMachines].Median)
	require.NotContains(t, r.Summary, result.FloorRatio)
}

func inLongTests(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long: scripts/test.sh long runs it")
	}
}

// lose starts a run and loses a part of it in the second window. The error must have the text says.
func (h *namespaces) lose(t *testing.T, what string, lose func(agent, run *program), says string) {
	t.Helper()
	run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--duration", "500ms", "--repeats",
		"200", "--launches", "1")
	first, second := h.join(t, 1, ticket), h.join(t, 2, ticket)
	run.output.await(t, "repeat 2 of 200")
	lose(second, run)
	began := time.Now()
	if what == "coordinator" {
		for _, a := range []*program{first, second} {
			require.Equal(t, 1, a.end(t))
			require.Contains(t, a.output.String(),
				"lost the coordinator 10.78.0.1:7177, so the ranks here were ended")
		}
		_ = run.Process.Kill()
		_ = run.Wait()
	} else {
		require.Equal(t, 1, run.end(t))
		require.Contains(t, run.output.String(), says)
		var r result.Result
		require.NoError(t, json.NewDecoder(&run.stdout).Decode(&r))
		require.True(t, r.Incomplete)
		require.NotEmpty(t, r.Repeats, "finished ones are kept")
		require.Contains(t, r.IncompleteReason, says)
	}
	t.Logf("the loss of the %s ended the run after %v", what, time.Since(began))
	h.requireIdle(t)
}

// TestLostHosts cuts cables during a run, each in a cluster that it has for itself.
func TestLostHosts(t *testing.T) {
	inLongTests(t)
	t.Parallel()
	for name, c := range map[string]struct {
		what string
		lose func(t *testing.T, h *namespaces, agent, run *program)
		says string
	}{
		"a host": {"host", func(t *testing.T, h *namespaces, _, _ *program) {
			h.cable(t, 2, "down")
		}, "host h2 is lost: "},
		"the coordinator": {"coordinator", func(t *testing.T, h *namespaces, _, _ *program) {
			h.cable(t, 0, "down")
		}, ""},
		// Its host answers, and its ranks run on until the coordinator gives it up: it need not run
		// again for that.
		"an agent that hangs": {"agent", func(t *testing.T, h *namespaces, agent, run *program) {
			h.signal(t, agent, "STOP")
			go func() {
				for end := time.Now().Add(time.Minute); time.Now().Before(end); {
					time.Sleep(50 * time.Millisecond)
					left, _ := exec.Command("nsenter", "--target", h.pids[2], "--all", "--",
						"pgrep", "--full", "transport-tcpx|transportbench-keeper").Output()
					if len(left) == 0 {
						break
					}
				}
				h.signal(t, agent, "CONT")
			}()
		}, "host h2 is lost: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startNamespaces(t, 3)
			h.lose(t, c.what, func(agent, run *program) { c.lose(t, h, agent, run) }, c.says)
		})
	}
}

// TestLostHostsLater cuts a cable for as long as a host may be silent by default: with a longer
// --host-timeout the run goes on.
func TestLostHostsLater(t *testing.T) {
	inLongTests(t)
	t.Parallel()
	h := startNamespaces(t, 3)
	run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--duration", "3s", "--repeats", "5",
		"--launches", "1", "--host-timeout", "40s", "--set", "timeout=40s")
	h.join(t, 1, ticket)
	h.join(t, 2, ticket)
	run.output.await(t, "repeat 2 of 5")
	h.cable(t, 2, "down")
	time.Sleep(12 * time.Second)
	h.cable(t, 2, "up")
	run.end(t)
	r, err := result.Parse(run.stdout.Bytes())
	require.NoError(t, err, run.output.String())
	require.Len(t, r.Repeats, 5, run.output.String())
	h.requireIdle(t)
}

// TestLostHostsForAMoment cuts a cable for two seconds: the run goes on, and its check says when
// nothing arrived.
func TestLostHostsForAMoment(t *testing.T) {
	inLongTests(t)
	h := startNamespaces(t, 3)
	run, ticket := h.coordinate(t, 2, "--transport", "tcpx", "--duration", "5s", "--repeats", "3",
		"--launches", "1")
	h.join(t, 1, ticket)
	h.join(t, 2, ticket)
	run.output.await(t, "repeat 2 of 3")
	time.Sleep(1500 * time.Millisecond) // after the probes before the window
	h.cable(t, 2, "down")
	time.Sleep(2 * time.Second)
	h.cable(t, 2, "up")
	run.end(t)
	r, err := result.Parse(run.stdout.Bytes())
	require.NoError(t, err, run.output.String())
	require.Len(t, r.Repeats, 3)
	i := slices.IndexFunc(r.Checks, func(f result.Finding) bool { return f.Name == "traffic" })
	require.False(t, r.Checks[i].OK, r.Repeats[1].Stalls)
	require.Regexp(t, `^for \S+s, from \S+s of window [23], no response came to client 0 of `+
		`rank 1 on h2`, r.Checks[i].Message)
	h.requireIdle(t)
}

// An agent takes its ticket from its arguments, the environment or standard input, and names the
// source of one that is none.
func TestTicketSources(t *testing.T) {
	const nobody = "tb1-00112233445566778899aabbccddeeff@127.0.0.1:1"
	for name, c := range map[string]struct {
		args   []string
		env    string
		stdin  string
		status int
		says   string
	}{
		"none": {status: 2, says: "agent needs a ticket: --join TICKET, or --join - " +
			"and the ticket on standard input, or the variable TRANSPORTBENCH_TICKET"},
		"argument": {args: []string{"--join", nobody}, status: 1,
			says: "join the coordinator: 127.0.0.1:1: connect: connection refused"},
		"environment": {env: nobody, status: 1, says: "join the coordinator: 127.0.0.1:1"},
		"standard input": {args: []string{"--join", "-"}, stdin: nobody + "\nmore\n", status: 1,
			says: "join the coordinator: 127.0.0.1:1"},
		"a flag of another version": {args: []string{"--from-the-future", "5s", "--join", nobody},
			status: 1, says: "join the coordinator: 127.0.0.1:1"},
		"no ticket": {args: []string{"--join", "-"}, stdin: "secret\n", status: 2,
			says: "standard input: not a ticket"},
		"bad argument": {args: []string{"--join", "secret"}, status: 2,
			says: "--join: not a ticket"},
	} {
		i := command(t, append([]string{"agent", "--patience", "1ms"}, c.args...)...)
		i.cmd.Env = append(i.cmd.Env, engine.TicketVariable+"="+c.env)
		i.cmd.Stdin = strings.NewReader(c.stdin)
		require.Equal(t, c.status, i.run(t), name)
		require.Contains(t, i.stderr.String(), c.says, name)
		require.NotContains(t, i.stderr.String(), "secret", name)
		require.NotContains(t, i.stderr.String(), "00112233", name)
	}
}

// A program that is no agent is refused, and the run waits on.
func TestStrangersAtThePort(t *testing.T) {
	i := command(t, append([]string{"run", "--listen", "127.0.0.1:0", "--agents", "1"},
		short...)...)
	stderr := &output{changed: make(chan struct{}, 1)}
	i.cmd.Stderr = stderr
	require.NoError(t, i.cmd.Start())
	ticket := stderr.await(t, `tb1-\S+`)
	conn, err := net.Dial("tcp", ticket[strings.Index(ticket, "@")+1:])
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
	stderr.await(t, "it is no agent: it does not speak TLS")
	require.NoError(t, i.cmd.Process.Signal(unix.SIGINT))
	require.Equal(t, 130, i.wait(t))
}
