package ofi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// childVariable makes the test binary a rank with the role in its value, as JSON: it prints
// its address, reads the other's, and acts.
const childVariable = "OFI_TEST_CHILD"

// role tells a child what to do.
type role struct {
	Name       string // "echo" or one of childRoles
	Options    map[string]string
	Peers      int // 1 if it is 0
	MaxPayload int
	InFlight   int
	Size       int
	CPU        int // -1 for any
}

// childRoles are the roles that print a result.
var childRoles = map[string]func(r role, w *worker) (any, error){}

func runChild() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	debug.SetGCPercent(-1)
	if err := playRole(os.Stdin, os.Stdout, text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func playRole(in io.Reader, out io.Writer, text string) error {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	tr, w, err := open(r)
	if err != nil {
		return err
	}
	if err := transporttest.Pin(r.CPU); err != nil {
		return err
	}
	fmt.Fprintf(out, "%x\n", w.Address())
	lines := bufio.NewScanner(in)
	lines.Scan()
	address, err := hex.DecodeString(lines.Text())
	if err != nil {
		return err
	}
	if err := w.Connect(context.Background(), 0, address); err != nil {
		return err
	}
	fmt.Fprintln(out, "connected")
	if play := childRoles[r.Name]; play != nil {
		result, err := play(r, w)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(result); err != nil {
			return err
		}
	} else {
		if err := echo(w); err != nil {
			return err
		}
	}
	return tr.Close()
}

func open(r role) (transport.Transport, *worker, error) {
	options, err := transport.ParseOptions(schema, r.Options)
	if err != nil {
		return nil, nil, err
	}
	tr, err := Driver{}.Open(context.Background(), transport.Config{
		Workers: 1, Peers: max(r.Peers, 1), InFlight: max(r.InFlight, 4), MaxPayload: r.MaxPayload,
		Options: options,
	})
	if err != nil {
		return nil, nil, err
	}
	made, err := tr.NewWorker(0)
	if err != nil {
		return nil, nil, err
	}
	if w, is := made.(*worker); is {
		return tr, w, nil
	}
	return tr, made.(parkingWorker).worker, nil
}

// echo answers until the peer is lost.
func echo(w *worker) error {
	events := make([]transport.Event, 64)
	replies := make([]transport.Op, 0, 128)
	for {
		n, err := w.Poll(events)
		if err != nil {
			return err
		}
		for i := range n {
			e := &events[i]
			if e.Kind == transport.EventPeerLost {
				return nil
			}
			replies = replies[:len(replies)+1]
			op := &replies[len(replies)-1]
			op.Kind = transport.OpReply
			op.Peer = e.Peer
			op.Token = e.Token
			op.Payload = e.Payload
		}
		for len(replies) > 0 {
			taken, err := w.Post(replies)
			if err != nil {
				return err
			}
			replies = replies[:copy(replies, replies[taken:])]
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// childStderr is the standard error of the next child.
var childStderr = os.Stderr

// child is one process with a role.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

// start starts a child and returns its address.
func start(t testing.TB, r role) (*child, string) {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text), "GODEBUG=asyncpreemptoff=1",
		"GORACE=atexit_sleep_ms=0") // the race detector would wait for a second
	c.cmd.Stderr = childStderr
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.lines = bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c, c.line(t)
}

func (c *child) line(t testing.TB) string {
	line, err := c.lines.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

// meet connects a child to an address.
func (c *child) meet(t testing.TB, address string) {
	_, err := fmt.Fprintln(c.in, address)
	require.NoError(t, err)
	require.Equal(t, "connected", c.line(t))
}

// between starts a child with a role and connects a worker of this process to it.
func between(t *testing.T, r role) (*worker, *child) {
	needLibrary(t)
	own := r
	own.Options = map[string]string{}
	for name, value := range r.Options {
		own.Options[name] = value
	}
	tr, w, err := open(own)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	c, address := start(t, r)
	c.meet(t, hex.EncodeToString(w.Address()))
	decoded, err := hex.DecodeString(address)
	require.NoError(t, err)
	require.NoError(t, w.Connect(t.Context(), 0, decoded))
	return w, c
}

func needLibrary(t testing.TB) {
	if missing != "" {
		t.Skip(missing)
	}
}

// next polls until there is an event.
func next(t testing.TB, w *worker) transport.Event {
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := w.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
	}
	t.Fatal("nothing arrived in 10 s")
	panic("unreachable")
}

func call(t testing.TB, w *worker, token transport.Token, payload []byte) {
	post(t, w, transport.Op{Kind: transport.OpCall, Token: token, Payload: payload})
}

func post(t testing.TB, w *worker, op transport.Op) {
	n, err := w.Post([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, w.Flush())
}

// TestSizes sends payloads of 0 bytes to 16 MiB to another process and back: injected, plain and
// tagged.
func TestSizes(t *testing.T) {
	const most = 16 << 20
	sizes := []int{0, 1, 7, 8, 47, 48, 49, 63, 64, 65, 112, 113, 1000, 4079, 4080, 4081, 4096, 8191,
		8192, 8193, 65535, 65536, 100000, 1 << 20, 4<<20 + 3, most}
	for _, c := range []struct {
		name    string
		options map[string]string
	}{
		{"shm", map[string]string{optionProvider: "shm"}},
		{"shm tagged", map[string]string{optionProvider: "shm", optionEager: "64"}},
		{"tcp", map[string]string{optionProvider: "tcp"}},
		{"tcp plain", map[string]string{optionProvider: "tcp", optionEager: "1MiB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := between(t, role{Options: c.options, MaxPayload: most})
			payload := make([]byte, most)
			for i := range payload {
				payload[i] = byte(i * 7 >> 3)
			}
			for i, size := range sizes {
				sent := payload[i : i+min(size, most-i)]
				if size == most {
					sent = payload
				}
				call(t, w, transport.Token(i), sent)
				e := next(t, w)
				require.Equal(t, transport.EventResponse, e.Kind)
				require.EqualValues(t, i, e.Token)
				require.True(t, bytes.Equal(sent, e.Payload), "payload of %d bytes", len(sent))
			}
			_, err := w.Post([]transport.Op{
				{Kind: transport.OpCall, Payload: make([]byte, most+1)}})
			require.ErrorIs(t, err, transport.ErrTooLarge)
		})
	}
}

// TestKilledPeerIsReported kills the other process while it is idle, and during small and
// large messages.
func TestKilledPeerIsReported(t *testing.T) {
	for _, provider := range []string{"shm", "tcp"} {
		for _, size := range []int{-1, 32, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", provider, size), func(t *testing.T) {
				w, c := between(t, role{Options: map[string]string{optionProvider: provider},
					MaxPayload: 1 << 20, InFlight: 8})
				call(t, w, 1, []byte("before"))
				require.Equal(t, transport.EventResponse, next(t, w).Kind)
				kill := func() {
					require.NoError(t, c.cmd.Process.Kill())
					require.Error(t, c.cmd.Wait())
				}
				if size < 0 {
					kill()
				} else {
					flood(t, w, size, kill)
				}
				for e := next(t, w); e.Kind != transport.EventPeerLost; e = next(t, w) {
					require.Equal(t, transport.EventResponse, e.Kind)
				}
				_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
				require.ErrorIs(t, err, transport.ErrPeerDown)
				n, err := w.Poll(make([]transport.Event, 4))
				require.NoError(t, err)
				require.Zero(t, n, "events after the loss")
			})
		}
	}
}

// flood keeps calls in flight for some round trips and then calls act while all of them are
// in flight.
func flood(t *testing.T, w *worker, size int, act func()) {
	ops := make([]transport.Op, 8)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, size)}
	}
	events := make([]transport.Event, 8)
	for answered, waiting := 0, len(ops); answered < 100; {
		n, err := w.Post(ops[:waiting])
		require.NoError(t, err)
		waiting -= n
		require.NoError(t, w.Flush())
		n, err = w.Poll(events)
		require.NoError(t, err)
		answered += n
		waiting += n
	}
	act()
}

// TestStoppedPeerIsNotLost: a stopped peer is silent but not lost.
func TestStoppedPeerIsNotLost(t *testing.T) {
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			w, c := between(t, role{Options: map[string]string{optionProvider: provider},
				MaxPayload: 64})
			call(t, w, 1, []byte("before"))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
			require.NoError(t, c.cmd.Process.Signal(unix.SIGSTOP))
			// Until it has stopped, a thread on another processor may still answer.
			require.NoError(t, unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WSTOPPED, nil))
			call(t, w, 2, []byte("while it is stopped"))
			events := make([]transport.Event, 1)
			for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
				n, err := w.Poll(events)
				require.NoError(t, err)
				require.Zero(t, n)
			}
			require.NoError(t, c.cmd.Process.Signal(unix.SIGCONT))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
		})
	}
}

// TestCloseIsReported: the child ends when its peer closes.
func TestCloseIsReported(t *testing.T) {
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			w, c := between(t, role{Options: map[string]string{optionProvider: provider},
				MaxPayload: 64})
			call(t, w, 1, []byte("before"))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
			require.NoError(t, w.Close())
			require.NoError(t, c.cmd.Wait(), "the child ends when its peer is lost")
		})
	}
}

// TestCloseFollowsLargeMessages: a worker that closes tells so after what it has sent, which a
// plain message would overtake.
func TestCloseFollowsLargeMessages(t *testing.T) {
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			const calls, size = 8, 1 << 20
			r := role{Options: map[string]string{optionProvider: provider}, MaxPayload: size,
				InFlight: calls}
			a, b := neighbours(t, r)
			for i := range calls {
				call(t, a, transport.Token(i), make([]byte, size))
			}
			require.NoError(t, a.Close())
			for range calls {
				require.Equal(t, transport.EventRequest, next(t, b).Kind)
			}
			require.Equal(t, transport.EventPeerLost, next(t, b).Kind)
		})
	}
}

// neighbours returns two connected workers of this process, which have met.
func neighbours(t *testing.T, r role) (a, b *worker) {
	needLibrary(t)
	var workers [2]*worker
	for i := range workers {
		tr, w, err := open(r)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers[i] = w
	}
	a, b = workers[0], workers[1]
	require.NoError(t, a.Connect(t.Context(), 0, b.Address()))
	require.NoError(t, b.Connect(t.Context(), 0, a.Address()))
	call(t, a, 0, nil)
	e := meet(t, a, b)
	post(t, b, transport.Op{Kind: transport.OpReply, Token: e.Token})
	require.Equal(t, transport.EventResponse, next(t, a).Kind)
	return a, b
}

// meet polls until the first event of b: libfabric connects while both poll.
func meet(t *testing.T, a, b *worker) transport.Event {
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		_, err := a.Poll(nil)
		require.NoError(t, err)
		n, err := b.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
	}
	t.Fatal("nothing arrived in 10 s")
	panic("unreachable")
}

// TestBusyWorkerHearsOfLoss: a worker whose polls always find something still reports the loss of a
// killed peer.
func TestBusyWorkerHearsOfLoss(t *testing.T) {
	r := role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64, Peers: 2}
	w, c := between(t, r)
	tr, busy, err := open(r)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	require.NoError(t, w.Connect(t.Context(), 1, busy.Address()))
	require.NoError(t, busy.Connect(t.Context(), 0, w.Address()))
	for token := range transport.Token(4) {
		call(t, busy, token, nil)
	}
	e := meet(t, busy, w)
	require.NoError(t, c.cmd.Process.Kill())
	require.Error(t, c.cmd.Wait())
	for deadline := time.Now().Add(10 * time.Second); e.Kind != transport.EventPeerLost; e = next(t,
		w) {
		require.True(t, time.Now().Before(deadline), "the loss was not reported in 10 s")
		post(t, w, transport.Op{Kind: transport.OpReply, Peer: 1, Token: e.Token})
		call(t, busy, next(t, busy).Token, nil)
	}
	require.EqualValues(t, 0, e.Peer)
}

// TestBrokenQueueLosesPeers: errors of the completion queue itself, which are of no operation.
func TestBrokenQueueLosesPeers(t *testing.T) {
	w, _ := between(t, role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
	call(t, w, 1, nil)
	require.Equal(t, transport.EventResponse, next(t, w).Kind)
	w.library.FailReads(int(unix.EIO))
	require.Equal(t, transport.EventPeerLost, next(t, w).Kind)
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

// TestStandardOutputIsClean makes libfabric log as much as it can. Standard output must have only
// the child's own lines, which start checks.
func TestStandardOutputIsClean(t *testing.T) {
	t.Setenv("FI_LOG_LEVEL", "trace")
	stderr, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer stderr.Close()
	childStderr = stderr
	defer func() { childStderr = os.Stderr }()
	w, c := between(t, role{Options: map[string]string{optionProvider: "tcp"}, MaxPayload: 64})
	call(t, w, 1, nil)
	require.Equal(t, transport.EventResponse, next(t, w).Kind)
	require.NoError(t, w.Close())
	rest, err := io.ReadAll(c.lines)
	require.NoError(t, err)
	require.Empty(t, string(rest))
}

// TestStart: a process starts without the sleeps of the libraries that libfabric loads, and they
// say nothing.
func TestStart(t *testing.T) {
	needLibrary(t)
	if _, err := os.Stat("/sys/class/infiniband"); err == nil {
		t.Skip("the kernel's RDMA core is loaded (/sys/class/infiniband), so these libraries may " +
			"compare clocks")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(output), "timebase")
	require.Less(t, cmd.ProcessState.SysUsage().(*syscall.Rusage).Nvcsw, int64(400),
		"sleeps; those of the libraries are about 1000")
}

// TestSignals: with provider shm open, Go still handles the signals that libfabric takes over, and
// libfabric's loaded libraries too.
func TestSignals(t *testing.T) {
	needLibrary(t)
	tr, _, err := open(role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
	require.NoError(t, err)
	defer tr.Close()
	var none *role
	require.Panics(t, func() { none.CPU++ })
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, s)
		require.NoError(t, unix.Kill(os.Getpid(), s))
		require.Equal(t, s, <-signals)
		signal.Stop(signals)
	}
}

// TestSharedMemoryIsInItsDirectory: the host removes the directory of a rank that was killed, and
// peers find the file in another rank's directory.
func TestSharedMemoryIsInItsDirectory(t *testing.T) {
	needLibrary(t)
	var workers []*worker
	for range 2 {
		dir, err := os.MkdirTemp(shm.NamedDir, "ofitest-")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		t.Setenv(shm.EnvDir, dir)
		tr, w, err := open(role{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers = append(workers, w)
		files, err := filepath.Glob(filepath.Join(dir, "transportbench-ofi-*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
	}
	require.NoError(t, workers[0].Connect(t.Context(), 0, workers[1].Address()))
	require.NoError(t, workers[1].Connect(t.Context(), 0, workers[0].Address()))
	call(t, workers[0], 7, []byte("from another directory"))
	require.NoError(t, workers[0].Flush())
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := workers[1].Poll(make([]transport.Event, 1))
		require.NoError(t, err)
		if n == 1 {
			return
		}
		_, err = workers[0].Poll(make([]transport.Event, 1))
		require.NoError(t, err)
	}
	t.Fatal("nothing arrived")
}
