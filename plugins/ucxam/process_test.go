package ucxam

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
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// childVariable makes the test binary a rank with the role in its value, as JSON: it prints
// its address, reads the other's, and acts.
const childVariable = "UCXAM_TEST_CHILD"

// role tells a child what to do.
type role struct {
	Name       string // "echo" or one of childRoles
	Options    map[string]string
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
		Workers: 1, Peers: 1, InFlight: max(r.InFlight, 4), MaxPayload: r.MaxPayload,
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
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text), "GODEBUG=asyncpreemptoff=1")
	c.cmd.Stderr = os.Stderr
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
	needUCX(t)
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

func needUCX(t testing.TB) {
	if missing != "" {
		t.Skip(missing)
	}
}

// next polls until there is an event.
func next(t testing.TB, w *worker) transport.Event {
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		n, err := w.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
	}
	t.Fatal("nothing arrived in 30 s")
	panic("unreachable")
}

func call(t testing.TB, w *worker, token transport.Token, payload []byte) {
	n, err := w.Post([]transport.Op{{Kind: transport.OpCall, Token: token, Payload: payload}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, w.Flush())
}

// TestSizes sends payloads of 0 bytes to 16 MiB to another process and back: eager, by
// rendezvous and as UCX decides.
func TestSizes(t *testing.T) {
	const most = 16 << 20
	sizes := []int{0, 1, 7, 8, 63, 64, 65, 92, 93, 1000, 4096, 8100, 8191, 8192, 8193, 65535, 65536,
		100000, 1 << 20, 4<<20 + 3, most}
	for _, c := range []struct {
		name    string
		options map[string]string
	}{
		{"posix", map[string]string{optionTLS: "posix,cma"}},
		{"posix without cma", map[string]string{optionTLS: "posix"}},
		{"posix by rendezvous", map[string]string{optionTLS: "posix", optionThreshold: "1kb",
			optionEager: "512"}},
		{"posix eager", map[string]string{optionTLS: "posix", optionThreshold: "inf",
			optionEager: "0"}},
		{"sysv", map[string]string{optionTLS: "sysv"}},
		{"tcp", map[string]string{optionTLS: "tcp"}},
		{"tcp by rendezvous", map[string]string{optionTLS: "tcp", optionThreshold: "1kb",
			optionEager: "512"}},
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

// TestSegmentsArePrivate requires that no other user, also of the user's group, may attach to UCX's
// System V segments.
func TestSegmentsArePrivate(t *testing.T) {
	w, c := between(t, role{Options: map[string]string{optionTLS: "sysv"}, MaxPayload: 64})
	call(t, w, 1, []byte("segments exist"))
	require.Equal(t, transport.EventResponse, next(t, w).Kind)
	text, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(text)) {
		var key, id, mode, size, creator int
		if n, _ := fmt.Sscanf(line, "%d %d %o %d %d", &key, &id, &mode, &size, &creator); n != 5 {
			continue // the heading
		}
		if creator == os.Getpid() || creator == c.cmd.Process.Pid {
			found++
			require.Zero(t, mode&0o077, "mode %o of segment %d", mode, id)
		}
	}
	require.GreaterOrEqual(t, found, 2, "a segment of each process")
}

// TestKilledPeerIsReported kills the other process while it is idle, and during small and
// large messages.
func TestKilledPeerIsReported(t *testing.T) {
	for _, lane := range []string{"posix", "sysv", "tcp"} {
		for _, size := range []int{-1, 32, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", lane, size), func(t *testing.T) {
				w, c := between(t, role{Options: map[string]string{optionTLS: lane},
					MaxPayload: 1 << 20, InFlight: 8})
				call(t, w, 1, []byte("before"))
				require.Equal(t, transport.EventResponse, next(t, w).Kind)
				// Wait for the process: UCX counts a zombie as alive.
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
	for _, lane := range []string{"posix", "tcp"} {
		t.Run(lane, func(t *testing.T) {
			w, c := between(t,
				role{Options: map[string]string{optionTLS: lane, optionKeepalive: "20ms"},
					MaxPayload: 64})
			call(t, w, 1, []byte("before"))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
			require.NoError(t, c.cmd.Process.Signal(unix.SIGSTOP))
			// Until it has stopped, a thread on another processor may still answer.
			require.NoError(t, unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WSTOPPED, nil))
			call(t, w, 2, []byte("while it is stopped"))
			events := make([]transport.Event, 1)
			for begin := time.Now(); time.Since(begin) < 200*time.Millisecond; {
				n, err := w.Poll(events)
				require.NoError(t, err)
				require.Zero(t, n)
			}
			require.NoError(t, c.cmd.Process.Signal(unix.SIGCONT))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
		})
	}
}

// TestCloseIsReported: a peer that closes is reported at once, without the keepalive.
func TestCloseIsReported(t *testing.T) {
	for _, lane := range []string{"posix", "tcp"} {
		t.Run(lane, func(t *testing.T) {
			w, c := between(t,
				role{Options: map[string]string{optionTLS: lane, optionKeepalive: "1h"},
					MaxPayload: 64})
			call(t, w, 1, []byte("before"))
			require.Equal(t, transport.EventResponse, next(t, w).Kind)
			require.NoError(t, w.Close())
			require.NoError(t, c.cmd.Wait(), "the child ends when its peer is lost")
		})
	}
}

// TestStandardOutputIsClean makes UCX log as much as it can. Standard output must have only the
// child's own lines, which start checks.
func TestStandardOutputIsClean(t *testing.T) {
	t.Setenv("UCX_LOG_LEVEL", "diag")
	t.Setenv("UCX_NO_SUCH_VARIABLE", "1") // UCX warns of it
	w, c := between(t, role{Options: map[string]string{optionTLS: "posix"}, MaxPayload: 64})
	call(t, w, 1, nil)
	require.Equal(t, transport.EventResponse, next(t, w).Kind)
	require.NoError(t, w.Close())
	rest, err := io.ReadAll(c.lines)
	require.NoError(t, err)
	require.Empty(t, string(rest))
}

// TestSignals: with UCX open, Go still handles signals.
func TestSignals(t *testing.T) {
	needUCX(t)
	tr, _, err := open(role{Options: map[string]string{optionTLS: "posix"}, MaxPayload: 64})
	require.NoError(t, err)
	defer tr.Close()
	var none *role
	require.Panics(t, func() { none.CPU++ })
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	defer signal.Stop(hangups)
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGHUP))
	require.Equal(t, unix.SIGHUP, <-hangups)
}
