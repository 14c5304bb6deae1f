package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/viper"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/core/lab/store/result"
)

// cluster is hosts with Slurm and sshd.
type cluster struct{ *namespaces }

// startCluster starts n hosts, which end with the test.
func startCluster(t *testing.T, n int) *cluster {
	for _, program := range []string{"slurmctld", "slurmd", "srun", "mpirun", "sshd", "ssh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("engines need %s: run scripts/setup.sh all as root", program)
		}
	}
	return &cluster{startNamespaces(t, n, "-s", "-k")}
}

// on returns a command that runs on a host.
func (c *cluster) on(host int, args ...string) *exec.Cmd {
	directory, _ := os.Getwd()
	cmd := exec.Command("nsenter", append([]string{"--target", c.pids[host], "--all",
		"--wd=" + directory, "--"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+c.tmp, "XDG_CONFIG_HOME="+c.tmp,
		"XDG_STATE_HOME="+c.tmp,
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PATH="+bin+":"+
			os.Getenv("PATH"))
	return cmd
}

// run runs a command on h0 and returns its exit status and output.
func (c *cluster) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := c.on(0, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// requireIdle waits until no process of a run is left on any host.
func (c *cluster) requireIdle(t *testing.T) {
	t.Helper()
	for host := range c.pids {
		require.Eventually(t, func() bool {
			left, _ := c.on(host, "pgrep", "--full", bin).Output()
			return len(left) == 0
		}, 20*time.Second, 20*time.Millisecond, "a process is left on h%d", host)
	}
}

// watchTickets fails the test if an argument of any process on the hosts is a ticket.
func (c *cluster) watchTickets(t *testing.T) {
	hosts := map[string]bool{}
	for _, pid := range c.pids {
		space, err := os.Readlink("/proc/" + pid + "/ns/pid")
		require.NoError(t, err)
		hosts[space] = true
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	looks, seen := 0, ""
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			looks++
			processes, _ := filepath.Glob("/proc/[0-9]*")
			for _, p := range processes {
				arguments, _ := os.ReadFile(p + "/cmdline")
				space, _ := os.Readlink(p + "/ns/pid")
				if hosts[space] && bytes.Contains(arguments, []byte("tb1-")) {
					seen = strings.ReplaceAll(string(arguments), "\x00", " ")
				}
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		watching.Wait()
		require.Empty(t, seen, "a process with the ticket in its arguments")
		require.Positive(t, looks)
	})
}

// listenToSwitch records what passes between the hosts, as who listens on the network can. The
// function that it returns waits for a ticket.
func (c *cluster) listenToSwitch(t *testing.T) (ticket func() string) {
	opened := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		space, err := os.Open("/proc/" + c.script + "/ns/net")
		if err == nil {
			err = unix.Setns(int(space.Fd()), unix.CLONE_NEWNET)
		}
		fd := -1
		if err == nil {
			fd, _ = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC,
				int(binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})))
		}
		opened <- fd
	}()
	fd := <-opened
	require.NotEqual(t, -1, fd)
	t.Cleanup(func() { _ = unix.Close(fd) })
	limit := unix.Timeval{Sec: 20}
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	form := regexp.MustCompile(`tb1-[0-9a-f]{32}@[0-9.:,]*:[0-9]+`)
	return func() string {
		frame := make([]byte, 1<<16)
		for {
			n, err := unix.Read(fd, frame)
			if err == unix.EINTR { // the runtime's signals end a read that has a limit
				continue
			}
			require.NoError(t, err, "no ticket passed: the test sees nothing")
			if seen := form.Find(frame[:n]); seen != nil {
				return string(seen)
			}
		}
	}
}

// TestEngines runs ranks on several hosts, which the engines of Debian's packages start.
func TestEngines(t *testing.T) {
	inLongTests(t)
	t.Parallel()
	c := startCluster(t, 3)
	c.watchTickets(t)
	tool := filepath.Join(bin, "transportbench")
	load := []string{"run", "--transport", "tcpx", "--duration", window, "--warmup", "20ms",
		"--repeats", "1", "--json", "--out", filepath.Join(c.tmp, "results")}
	hostfile := filepath.Join(c.tmp, "hosts.txt")
	require.NoError(t, os.WriteFile(hostfile, []byte("# two of three\nh1 slots=2\nh2\n"), 0o644))
	run := func(args ...string) []string { return append(append([]string{tool}, load...), args...) }
	script := filepath.Join(c.tmp, "batch.sh")

	for name, of := range map[string]struct {
		command []string
		hosts   [2]string
	}{
		"ssh":      {run("--hosts", "h0,root@h2"), [2]string{"h0", "h2"}},
		"hostfile": {run("--hostfile", hostfile), [2]string{"h1", "h2"}},
		"srun":     {run("--launch", "srun -N2 --ntasks-per-node=1"), [2]string{"h0", "h1"}},
		"every task": {append([]string{"srun", "-N2", "--ntasks-per-node=1", "--mpi=pmi2"},
			run()...), [2]string{"h0", "h1"}},
		"every task without PMI": {append([]string{"srun", "-N2", "-w", "h1,h2",
			"--ntasks-per-node=1"}, run()...), [2]string{"h1", "h2"}},
		"mpirun and ssh": {run("--launch", "mpirun --map-by node --bind-to none -n 2 --host h1,h2"),
			[2]string{"h1", "h2"}},
		"mpirun in an allocation": {append([]string{"salloc", "-N2", "--ntasks-per-node=1",
			"--exclusive"},
			run("--launch", "mpirun --map-by node --bind-to none -n 2")...), [2]string{"h0", "h1"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := c.run(t, of.command...)
			requireHosts(t, status, stdout, stderr, of.hosts)
			c.requireIdle(t)
		})
	}
	t.Run("ucxam", func(t *testing.T) { // it chooses its provider, which must not be memory here
		if err := buildUCXAM(t); err != nil {
			t.Skip(err)
		}
		command := run("--launch", "srun -N2 --ntasks-per-node=1")
		command[slices.Index(command, "tcpx")] = "ucxam"
		status, stdout, stderr := c.run(t, command...)
		requireHosts(t, status, stdout, stderr, [2]string{"h0", "h1"})
		c.requireIdle(t)
	})
	t.Run("PMIx", func(t *testing.T) {
		pmix := []string{"srun", "-N2", "--ntasks-per-node=1", "--mpi=pmix"}
		if status, _, stderr := c.run(t, append(pmix, "true")...); status != 0 {
			t.Skip("this Slurm has no PMIx: ", stderr)
		}
		require.NoError(t, os.WriteFile(script,
			[]byte("#!/bin/sh\n: ${PMIX_RANK:?}\nexec \"$@\"\n"), 0o755))
		for _, command := range [][]string{
			append(append(pmix, script), run()...),
			run("--launch", strings.Join(append(pmix, script), " ")),
		} {
			status, stdout, stderr := c.run(t, command...)
			requireHosts(t, status, stdout, stderr, [2]string{"h0", "h1"})
			c.requireIdle(t)
		}
	})
	t.Run("sbatch", func(t *testing.T) {
		out, problems := filepath.Join(c.tmp, "out"), filepath.Join(c.tmp, "problems")
		ended := filepath.Join(c.tmp, "ended")
		require.NoError(t, os.WriteFile(script,
			[]byte("#!/bin/sh\n"+strings.Join(run("--launch", "'srun --ntasks-per-node=1'"), " ")+
				"\necho $? >"+ended+".new && mv "+ended+".new "+ended+"\n"), 0o755))
		submitted, _, stderr := c.run(t, "sbatch", "-N2", "--ntasks-per-node=1", "-o", out, "-e",
			problems, script)
		require.Zero(t, submitted, stderr)
		status := 0
		require.Eventually(t, func() bool { // sbatch --wait looks after 2, 6, 14, 30 s
			text, _ := os.ReadFile(ended)
			n, _ := fmt.Sscan(string(text), &status)
			return n == 1
		}, time.Minute, 50*time.Millisecond)
		stdout, _ := os.ReadFile(out)
		text, _ := os.ReadFile(problems)
		requireHosts(t, status, string(stdout), stderr+string(text), [2]string{"h0", "h1"})
		c.requireIdle(t)
	})
	t.Run("options of hosts", func(t *testing.T) {
		own := filepath.Join(c.tmp, "own.txt")
		require.NoError(t, os.WriteFile(own, []byte("h1 sockets=2\nh2 sockets=2 slots=4\n"),
			0o644))
		for _, way := range [][]string{
			{"--hostfile", own},
			{"--launch", "srun -N2 -w h1,h2 --ntasks-per-node=1", "--map",
				"h1 sockets=2,h2 sockets=2"},
		} {
			status, stdout, stderr := c.run(t, run(way...)...)
			requireHosts(t, status, stdout, stderr, [2]string{"h1", "h2"})
			r, err := result.Parse([]byte(stdout))
			require.NoError(t, err)
			for _, host := range r.Hosts {
				require.Equal(t, "2", host.Options["sockets"])
			}
		}
		status, _, stderr := c.run(t, run("--hosts", "h1,h2", "--map", "h1 sock=2,h2")...)
		require.Equal(t, 2, status)
		require.Contains(t, stderr, `host h1: option "sock": unknown; did you mean "sockets"?`)
		c.requireIdle(t)
	})
	half := filepath.Join(c.tmp, "half.sh")
	require.NoError(t, os.WriteFile(half,
		[]byte("#!/bin/sh\n[ ${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID} = 0 ] || { sleep 0.5; exit "+
			"3; }\nexec \"$@\"\n"), 0o755))
	for name, of := range map[string]struct {
		command []string
		status  int
		want    []string
	}{
		"tasks on one machine": {append([]string{"srun", "-N1", "-n2"}, run()...), 1,
			[]string{"is on the same machine", "srun --ntasks-per-node=1"}},
		"copies of mpirun": {append([]string{"mpirun", "-n", "2", "--host", "h1,h2"}, run()...), 2,
			[]string{`mpirun started 2 copies of this command`, `--launch "mpirun ..."`}},
		"one machine": {run("--launch", "srun -N1 -n2"), 1,
			[]string{"is on the same machine", "srun --ntasks-per-node=1"}},
		"engine fails": {run("--launch", "srun -w nowhere"), 1,
			[]string{"srun: ", "transportbench: ", "srun failed: exit status 1: ",
				"Invalid node name specified"}},
		"a task of srun fails": {run("--join-timeout", "1m", "--launch",
			"srun -N2 --ntasks-per-node=1 "+half), 1,
			[]string{"waiting for agents: ", ": task 1: Exited with exit code 3"}},
		"a process of mpirun fails": {run("--join-timeout", "1m", "--launch",
			"mpirun --map-by node --bind-to none -n 2 --host h1,h2 "+half), 1,
			[]string{"waiting for agents: ", "mpirun failed: exit status 3: "}},
		"mpirun as root": {append([]string{"env", "-u", "OMPI_ALLOW_RUN_AS_ROOT"},
			run("--launch", "mpirun -n 1")...), 1,
			[]string{`mpirun does not run as root: `, `--launch "mpirun --allow-run-as-root ..."`}},
		"unknown host": {run("--hosts", "h1,nowhere"), 1,
			[]string{"nowhere failed: exit status 255: ", "Could not resolve hostname"}},
		"another path": {run("--hosts", "h1", "--remote-command", "/nowhere/transportbench"), 1,
			[]string{"set --remote-command"}},
		"a task's --hosts": {append([]string{"srun", "-N2", "--ntasks-per-node=1", "--mpi=pmi2"},
			run("--hosts", "h1")...), 2,
			[]string{"every task of mpiexec runs this command", "leave out --hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, stderr := c.run(t, of.command...)
			require.Equal(t, of.status, status, stderr)
			for _, want := range of.want {
				require.Contains(t, stderr, want)
			}
			c.requireIdle(t)
		})
	}
	t.Run("scancel", func(t *testing.T) {
		cmd := c.on(0, run("--launch", "srun -N2 --ntasks-per-node=1", "--duration", "500ms",
			"--repeats", "200", "--launches", "1")...)
		var out bytes.Buffer
		problems := &output{changed: make(chan struct{}, 1)}
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, problems, 10*time.Second
		require.NoError(t, cmd.Start())
		problems.await(t, "repeat 2 of 200")
		status, _, stderr := c.run(t, "scancel", "--user", "root")
		require.Zero(t, status, stderr)
		_ = cmd.Wait()
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), problems)
		var r result.Result
		require.NoError(t, json.NewDecoder(&out).Decode(&r))
		for _, text := range []string{problems.String(), r.IncompleteReason} {
			require.Regexp(t, `host h[01] is lost: its agent ended; srun .*CANCELLED`, text)
		}
		c.requireIdle(t)
	})
	t.Run("a ticket that was seen", func(t *testing.T) {
		wait := filepath.Join(c.tmp, "wait.sh")
		allowed := filepath.Join(c.tmp, "allowed")
		require.NoError(t, os.WriteFile(wait, []byte("#!/bin/sh\nuntil [ -e "+allowed+
			" ]; do sleep 0.05; done\nexec \"$@\"\n"), 0o755))
		for engine, launch := range map[string]string{
			"srun":   "srun -N2 -w h1,h2 --ntasks-per-node=1 ",
			"mpirun": "mpirun --map-by node --bind-to none -n 2 --host h1,h2 ",
		} {
			_ = os.Remove(allowed)
			wire := c.listenToSwitch(t)
			run := c.on(0, run("--launch", launch+wait)...)
			var out bytes.Buffer
			problems := &output{changed: make(chan struct{}, 1)}
			run.Stdout, run.Stderr, run.WaitDelay = &out, problems, 10*time.Second
			require.NoError(t, run.Start())
			t.Cleanup(func() { // if no ticket passes, the run must not be left to the next test
				_ = os.WriteFile(allowed, nil, 0o644)
				_ = run.Wait()
			})
			ticket := wire()
			stranger := c.on(2, tool, "agent", "--patience", "1ms")
			stranger.Env = append(stranger.Env, "TRANSPORTBENCH_TICKET="+ticket)
			says, err := stranger.CombinedOutput()
			require.Error(t, err, engine)
			require.Contains(t, string(says), "it does not know the token of this run", engine)
			require.NoError(t, os.WriteFile(allowed, nil, 0o644))
			_ = run.Wait()
			requireHosts(t, run.ProcessState.ExitCode(), out.String(), problems.String(),
				[2]string{"h1", "h2"})
		}
		c.requireIdle(t)
	})
	t.Run("no secret", func(t *testing.T) {
		apart := filepath.Join(c.tmp, "apart.sh") // hosts that share no home
		require.NoError(t, os.WriteFile(apart, []byte("#!/bin/sh\nexec unshare --mount sh -c '"+
			"mount -t tmpfs none "+filepath.Join(c.tmp, "transportbench")+
			" && exec \"$@\"' sh \"$@\"\n"), 0o755))
		status, _, stderr := c.run(t, run("--launch", "srun -N2 --ntasks-per-node=1 "+apart)...)
		require.Equal(t, 1, status)
		require.Contains(t, stderr, "copy that file here from the coordinator's host")
		status, stdout, stderr := c.run(t, run("--secret", options.NoSecret, "--launch",
			"srun -N2 --ntasks-per-node=1")...)
		requireHosts(t, status, stdout, stderr, [2]string{"h0", "h1"})
		c.requireIdle(t)
	})
	t.Run("doctor", func(t *testing.T) {
		status, stdout, stderr := c.run(t, tool, "doctor", "-v", "--hosts", "h0,h1,h2")
		require.Zero(t, status, stderr)
		require.Regexp(t, "hosts +the same on h0, h1 and h2", stdout)
		require.Regexp(t, `(ok|note) +paths +6 paths, round trip [0-9.]+ us to `, stdout)
		require.Regexp(t, `(?m)^bandwidth, from +to h0 +to h1 +to h2$`, stdout)
		require.Regexp(t, `(?m)^h1 +[0-9.]+ \w+B/s +[0-9.]+ \w+B/s$`, stdout)
		uneven := filepath.Join(c.tmp, "uneven")
		other := filepath.Join(c.tmp, "other")
		require.NoError(t, os.Mkdir(other, 0o755))
		require.NoError(t, exec.Command("cp", tool, other).Run())
		require.NoError(t, os.WriteFile(filepath.Join(other, "transport-tcpx"), []byte("another"),
			0o755))
		require.NoError(t, os.WriteFile(uneven,
			[]byte("#!/bin/sh\n[ $SLURM_PROCID = 0 ] || { shift; exec taskset -c 0 "+other+
				"/transportbench \"$@\"; }\nexec \"$@\"\n"), 0o755))
		require.NoError(t, c.on(1, "ip", "link", "set", "eth0", "mtu", "1400").Run())
		status, stdout, stderr = c.run(t, tool, "doctor", "-v", "--launch",
			"srun -N2 --ntasks-per-node=1 "+uneven)
		require.NoError(t, c.on(1, "ip", "link", "set", "eth0", "mtu", "1500").Run())
		require.Equal(t, 1, status, stderr)
		require.Regexp(t, `warn +hosts: [a-z_]+ +[0-9,-]+ on h0; 0 on h1\n`, stdout)
		require.Regexp(t,
			`bad +hosts: plugin tcpx +h1: plugin tcpx: \S+/other/transport-tcpx has the`, stdout)
		require.Contains(t, stdout, `h1: there is no plugin "erpc" in `)
		require.Regexp(t, `warn +hosts: interface eth0 +MTU 1500.* on h0; MTU 1400.* on h1`, stdout)
		require.Regexp(t, `h0: auto-tcpx `, stdout)
	})
	t.Run("doctor of paths", func(t *testing.T) {
		require.NoError(t, c.on(1, "ip", "neigh", "replace", "10.78.0.3", "lladdr",
			"02:00:00:00:00:99", "dev", "eth0", "nud", "permanent").Run())
		status, stdout, stderr := c.run(t, tool, "doctor", "-v", "--hosts", "h0,h1,h2")
		failed, _, says := c.run(t, run("--hosts", "h1,h2")...)
		require.NoError(t, c.on(1, "ip", "neigh", "flush", "dev", "eth0", "nud",
			"permanent").Run())
		require.Equal(t, 1, failed)
		require.Regexp(t, `no connection with 10\.78\.0\.[23]:\d+ yet`, says)
		require.Equal(t, 1, status, stderr)
		require.Regexp(t, `bad +path from h1 to h2 +dial tcp 10\.78\.0\.3:`, stdout)
		require.Regexp(t, `bad +path from h2 to h1 `, stdout)
		require.Regexp(t, `(?m)^h1 +\S+ us +none *$`, stdout)
		require.NotContains(t, stdout, "bad   path from h0")
	})
	t.Run("Kubernetes", func(t *testing.T) { c.likeKubernetes(t) })
	t.Run("MPI operator", func(t *testing.T) { c.likeMPIOperator(t) })
}

// TestLostHostsOfSlurm cuts off a host, so that srun cannot end the task there. srun waits for the
// task, and once srun has ended, Slurm has no job left.
func TestLostHostsOfSlurm(t *testing.T) {
	inLongTests(t)
	t.Parallel()
	c := startCluster(t, 3)
	run := c.start(t, 0, nil, "run", "--launch", "srun -N2 -w h1,h2 --ntasks-per-node=1",
		"--transport", "tcpx", "--json", "--out", t.TempDir(), "--duration", "500ms", "--warmup",
		"20ms", "--repeats", "200", "--launches", "1")
	run.output.await(t, "repeat 2 of 200")
	c.cable(t, 2, "down")
	require.Equal(t, 1, run.end(t))
	require.Contains(t, run.output.String(), "host h2 is lost: ")
	require.Contains(t, run.output.String(), "srun: Job step aborted")
	require.NotContains(t, run.output.String(), "killed")
	require.Eventually(t, func() bool { // the job completes once Slurm has given up the node
		_, jobs, _ := c.run(t, "squeue", "--noheader")
		return jobs == ""
	}, 40*time.Second, 200*time.Millisecond, "a job is left")
}

// requireHosts checks the result of a run on two hosts.
func requireHosts(t *testing.T, status int, stdout, stderr string, hosts [2]string) {
	t.Helper()
	require.Contains(t, []int{0, 4}, status, stderr) // checks of the rate may fail
	for _, host := range hosts {
		require.Contains(t, stderr, "transportbench: "+host+" (10.78.0.")
	}
	require.NotContains(t, stderr, "tb1-", "a ticket")
	r, err := result.Parse([]byte(stdout))
	require.NoError(t, err, stderr)
	requireVerified(t, r)
	require.Positive(t, r.Summary[result.Throughput].Median)
	var names []string
	for _, host := range r.Hosts {
		names = append(names, host.Name)
	}
	require.Subset(t, names, hosts[:])
}

// likeKubernetes runs what the pods of docs/kubernetes/indexed-job.yaml run, on hosts that find
// each other as pods do: by an index, and by a name of the first.
func (c *cluster) likeKubernetes(t *testing.T) {
	page, err := os.ReadFile("../../docs/hosts.md")
	require.NoError(t, err)
	apply := regexp.MustCompile(`(?m)^(printf .*) \| kubectl apply -f -$`).FindSubmatch(page)
	require.NotNil(t, apply, "the command that applies the manifest")
	manifest := exec.Command("sh", "-c",
		strings.Replace(string(apply[1]), "$(openssl rand -hex 16)", strings.Repeat("5a", 16), 1))
	manifest.Dir = "../.."
	text, err := manifest.Output()
	require.NoError(t, err)
	documents := bytes.Split(text, []byte("\n---\n"))
	job, secret := viper.New(), viper.New()
	for v, document := range map[*viper.Viper][]byte{job: documents[2], secret: documents[0]} {
		v.SetConfigType("yaml")
		require.NoError(t, v.ReadConfig(bytes.NewReader(document)))
	}
	container := job.Get("spec.template.spec.containers").([]any)[0].(map[string]any)
	script := container["args"].([]any)[0].(string)
	for from, to := range map[string]string{
		"--agents 4 --ranks 4": "--agents 3 --ranks 3 --duration " + window +
			" --warmup 20ms --repeats 1 --json",
		"--out /results": "--out " + filepath.Join(c.tmp, "results"),
	} {
		require.Contains(t, script, from)
		script = strings.Replace(script, from, to, 1)
	}
	ticket := secret.GetString("stringData.ticket")
	require.Contains(t, ticket, "tb1-5a5a")
	pod := func(index int) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		cmd := c.on(index, "/bin/sh", "-ec", script)
		cmd.Env = append(cmd.Env, "TRANSPORTBENCH_TICKET="+ticket,
			fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index))
		var out, problems bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problems
		cmd.WaitDelay = 10 * time.Second
		require.NoError(t, cmd.Start())
		return cmd, &out, &problems
	}
	// The agents start first, when the name of the first pod does not exist yet.
	last, _, lastProblems := pod(2)
	middle, _, middleProblems := pod(1)
	require.NoError(t, c.on(0, "sh", "-c",
		"echo 10.78.0.1 transportbench-0.transportbench >>/etc/hosts").Run())
	first, out, problems := pod(0)
	_ = first.Wait()
	require.NoError(t, middle.Wait(), middleProblems.String())
	require.NoError(t, last.Wait(), lastProblems.String())
	requireHosts(t, first.ProcessState.ExitCode(), out.String(), problems.String(),
		[2]string{"h1", "h2"})
	require.NotContains(t, problems.String(), "5a5a")
	c.requireIdle(t)
}

// likeMPIOperator runs what the launcher of docs/kubernetes/mpijob.yaml runs, which finds the
// workers by a list and reaches them with ssh.
func (c *cluster) likeMPIOperator(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes/mpijob.yaml")
	require.NoError(t, err)
	job := viper.New()
	job.SetConfigType("yaml")
	require.NoError(t, job.ReadConfig(bytes.NewReader(bytes.Split(text, []byte("\n---\n"))[0])))
	const containers = "spec.mpiReplicaSpecs.Launcher.template.spec.containers"
	script := job.Get(containers).([]any)[0].(map[string]any)["args"].([]any)[0].(string)
	list := filepath.Join(c.tmp, "hostfile")
	require.NoError(t, os.WriteFile(list, []byte("h1 slots=1\nh2 slots=1\n"), 0o644))
	for from, to := range map[string]string{
		"--ranks 4":         "--ranks 2 --duration " + window + " --warmup 20ms --repeats 1 --json",
		"/etc/mpi/hostfile": list,
		"--out /results":    "--out " + filepath.Join(c.tmp, "results"),
	} {
		require.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	status, stdout, stderr := c.run(t, "/bin/sh", "-ec", script)
	requireHosts(t, status, stdout, stderr, [2]string{"h1", "h2"})
	c.requireIdle(t)
}
