package grpc

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// serverVariable turns the test binary into a server process: the value has the options of its
// transport. It prints its address, reads the test's, and answers calls until the peer is lost.
// With the value plain, it is the server of a benchmark without this package.
const serverVariable = "GRPC_TEST_SERVER"

const processPayload = 64 << 10

func runServer() bool {
	options, asked := os.LookupEnv(serverVariable)
	if !asked {
		return false
	}
	err := serve(options)
	if options == plainServer {
		err = servePlain()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// openWith opens a rank with one worker. options are separated by blanks.
func openWith(options string, payload, inFlight int) (transport.Transport, *worker, error) {
	raw := map[string]string{}
	for _, o := range strings.Fields(options) {
		key, value, _ := strings.Cut(o, "=")
		raw[key] = value
	}
	values, err := transport.ParseOptions(schema, raw)
	if err != nil {
		return nil, nil, err
	}
	tr, err := Driver{}.Open(context.Background(), transport.Config{
		Workers: 1, Peers: 4, InFlight: inFlight, MaxPayload: payload, Options: values})
	if err != nil {
		return nil, nil, err
	}
	w, err := tr.NewWorker(0)
	if err != nil {
		return nil, nil, err
	}
	return tr, w.(*worker), nil
}

const processInFlight = 64

func serve(options string) error {
	tr, w, err := openWith(options, processPayload, processInFlight)
	if err != nil {
		return err
	}
	defer tr.Close()
	fmt.Println(string(w.Address()))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	if err := w.Connect(context.Background(), 0, []byte(strings.TrimSpace(line))); err != nil {
		return err
	}
	events := make([]transport.Event, 64)
	replies := make([]transport.Op, 0, 64)
	for {
		n, err := w.Poll(events)
		if err != nil {
			return err
		}
		if n == 0 {
			if err := w.Wait(time.Millisecond); err != nil {
				return err
			}
		}
		for _, e := range events[:n] {
			if e.Kind == transport.EventPeerLost {
				return nil
			}
			replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
				Token: e.Token, Payload: e.Payload})
		}
		for len(replies) > 0 { // the payloads end with the next Poll
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

// startServer starts a server process and returns it with the first line that it prints.
func startServer(tb testing.TB, options string) (process *os.Process, address string,
	tell func(string)) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"="+options)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(tb, err)
	return cmd.Process, strings.TrimSpace(address), func(line string) {
		_, err := in.Write([]byte(line + "\n"))
		require.NoError(tb, err)
	}
}

// connectProcess connects a new worker to a new server process.
func connectProcess(tb testing.TB, options string) (*os.Process, *worker) {
	process, address, tell := startServer(tb, options)
	tr, w, err := openWith(options, processPayload, processInFlight)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, tr.Close()) })
	require.NoError(tb, w.Connect(context.Background(), 0, []byte(address)))
	tell(string(w.Address()))
	return process, w
}

// TestKilledProcess kills a peer among large calls: Poll reports the loss, and Post refuses the
// peer. A peer that is only stopped for a while is not lost.
func TestKilledProcess(t *testing.T) {
	for _, options := range []string{"calls=stream", "calls=unary network=unix", "tls=true"} {
		t.Run(options, func(t *testing.T) {
			process, w := connectProcess(t, options)
			call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, processPayload)}}
			events := make([]transport.Event, 16)
			answered, lost := 0, false
			step := func() {
				if _, err := w.Post(call); err != nil {
					require.ErrorIs(t, err, transport.ErrPeerDown)
				}
				require.NoError(t, w.Flush())
				n, err := w.Poll(events)
				require.NoError(t, err)
				for _, e := range events[:n] {
					if e.Kind == transport.EventPeerLost {
						lost = true
					} else {
						answered++
					}
				}
				if n == 0 {
					require.NoError(t, w.Wait(time.Millisecond))
				}
			}
			require.Eventually(t, func() bool { step(); return answered >= 50 }, time.Minute,
				time.Microsecond)
			require.NoError(t, process.Signal(unix.SIGSTOP))
			require.NoError(t, unix.Waitid(unix.P_PID, process.Pid, nil, unix.WSTOPPED, nil))
			for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; {
				step()
			}
			require.False(t, lost)
			require.NoError(t, process.Signal(unix.SIGCONT))
			before := answered
			require.Eventually(t, func() bool { step(); return answered >= before+processInFlight },
				time.Minute, time.Microsecond)
			require.False(t, lost)
			require.NoError(t, process.Kill())
			require.Eventually(t, func() bool { step(); return lost }, time.Minute,
				time.Microsecond)
			_, err := w.Post(call)
			require.ErrorIs(t, err, transport.ErrPeerDown)
			require.Error(t, w.Silence(0))
		})
	}
}
