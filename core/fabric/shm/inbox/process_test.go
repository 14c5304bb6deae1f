package inbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// childVariable makes the test binary an echo process: it prints its address, reads the
// other's, and serves until its peer is lost.
const childVariable = "INBOX_TEST_CHILD"

func runChild() bool {
	if os.Getenv(childVariable) == "" {
		return false
	}
	if err := echoChild(os.Stdin, os.Stdout, os.Getenv(childVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func echoChild(in io.Reader, out io.Writer, backing string) error {
	_, w, err := open(backing)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", w.Address())
	lines := bufio.NewScanner(in)
	lines.Scan()
	if err := w.Connect(context.Background(), 0, lines.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(out, "connected")
	events := make([]transport.Event, 16)
	for {
		n, err := w.Poll(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Kind == transport.EventPeerLost {
				return nil
			}
			if _,
				err := w.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token,
				Payload: e.Payload}}); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

func open(backing string) (*Transport, *worker, error) {
	cfg := testConfig()
	cfg.Backing = shm.Backing(backing)
	tr, err := Open(cfg)
	if err != nil {
		return nil, nil, err
	}
	w, err := tr.NewWorker(0)
	if err != nil {
		return nil, nil, err
	}
	return tr, w.(*worker), nil
}

// startEcho starts a child and connects a worker of this process to it.
func startEcho(t *testing.T, backing string) (*worker, *exec.Cmd) {
	tr, w, err := open(backing)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+backing)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	lines := bufio.NewReader(out)
	address, err := lines.ReadString('\n')
	require.NoError(t, err)
	fmt.Fprintf(in, "%s\n", w.Address())
	connected, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "connected\n", connected)
	require.NoError(t, w.Connect(t.Context(), 0, []byte(strings.TrimSpace(address))))
	return w, child
}

func next(t *testing.T, w *worker) transport.Event {
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := w.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
		require.NoError(t, w.Wait(time.Millisecond))
	}
	t.Fatal("nothing arrived in 10 s")
	panic("unreachable")
}

func call(t *testing.T, w *worker, token transport.Token, payload []byte) {
	n, err := w.Post([]transport.Op{{Kind: transport.OpCall, Token: token, Payload: payload}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, w.Flush())
}

func TestBetweenProcesses(t *testing.T) {
	for _, backing := range []string{"memfd", "named"} {
		t.Run(backing, func(t *testing.T) {
			before := namedSegments(t)
			w, _ := startEcho(t, backing)
			require.Equal(t, before, namedSegments(t),
				"the last process that maps a segment unlinks it")
			for size := 0; size <= 4096; size += 37 {
				payload := []byte(strings.Repeat(string(rune('a'+size%26)), size))
				call(t, w, transport.Token(size), payload)
				e := next(t, w)
				require.Equal(t, transport.EventResponse, e.Kind)
				require.EqualValues(t, size, e.Token)
				require.Equal(t, string(payload), string(e.Payload))
			}
		})
	}
}

func namedSegments(t *testing.T) (names []string) {
	entries, err := os.ReadDir("/dev/shm")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "transportbench-") && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestKilledPeerIsReported(t *testing.T) {
	before := namedSegments(t)
	w, child := startEcho(t, "memfd")
	call(t, w, 1, []byte("before"))
	require.Equal(t, transport.EventResponse, next(t, w).Kind)
	require.NoError(t, child.Process.Kill())
	e := next(t, w)
	require.Equal(t, transport.EventPeerLost, e.Kind)
	require.EqualValues(t, 0, e.Peer)
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
	require.Equal(t, before, namedSegments(t))
}

// TestReplyBeforeClose: a reply out of order arrives although its sender closes right after
// it.
func TestReplyBeforeClose(t *testing.T) {
	for _, name := range Rings() {
		t.Run(name, func(t *testing.T) {
			a, b := connected(t, withRing(name))
			exchange := func(calls, replies int) {
				for i := range calls {
					call(t, a, transport.Token(i), []byte("call"))
				}
				events := make([]transport.Event, 8)
				n, err := b.Poll(events)
				require.NoError(t, err)
				require.Equal(t, calls, n)
				for i := range replies { // the last first
					e := events[calls-1-i]
					_, err := b.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer,
						Token: e.Token}})
					require.NoError(t, err)
				}
				require.NoError(t, b.Flush())
			}
			exchange(1, 1)
			require.Equal(t, transport.EventResponse, next(t, a).Kind)
			exchange(2, 1)
			require.NoError(t, b.Close())
			e := next(t, a)
			require.Equal(t, transport.EventResponse, e.Kind)
			require.EqualValues(t, 1, e.Token)
			require.Equal(t, transport.EventPeerLost, next(t, a).Kind)
		})
	}
}
