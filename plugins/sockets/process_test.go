package sockets

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/transport"
)

// serverVariable turns the test binary into a server process. Its value is the network and, after a
// space, the engine; epoll if there is none. The server prints its address, reads the test's, and
// answers calls until it is killed or the peer is lost.
const serverVariable = "SOCKETS_TEST_SERVER"

const serverPayload = 4 << 20

func TestMain(m *testing.M) {
	if network := os.Getenv(serverVariable); network != "" {
		if err := serve(network); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func openForProcess(network string) (transport.Transport, transport.Worker, error) {
	network, engine, _ := strings.Cut(network, " ")
	values, err := transport.ParseOptions(schema, map[string]string{"network": network, "engine": cmp.Or(engine, engineEpoll)})
	if err != nil {
		return nil, nil, err
	}
	tr, err := Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: 1, InFlight: 8, MaxPayload: serverPayload, Options: values})
	if err != nil {
		return nil, nil, err
	}
	w, err := tr.NewWorker(0)
	return tr, w, err
}

func serve(network string) error {
	_, w, err := openForProcess(network)
	if err != nil {
		return err
	}
	fmt.Println(string(w.Address()))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	if err := w.Connect(context.Background(), 0, []byte(strings.TrimSpace(line))); err != nil {
		return err
	}
	events := make([]transport.Event, 16)
	var replies []transport.Op
	for {
		n, err := w.Poll(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Kind == transport.EventPeerLost {
				return nil
			}
			replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token})
		}
		taken, err := w.Post(replies)
		if err != nil {
			return err
		}
		replies = replies[taken:]
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// TestKilledProcess kills a peer in the middle of large messages: Poll reports the loss, the socket
// is closed, and nothing of the dead process is left.
func TestKilledProcess(t *testing.T) {
	for _, network := range append([]string{"tcp uring", "unix uring"}, bothNetworks...) {
		t.Run(network, func(t *testing.T) {
			before := descriptors(t)
			server := exec.Command(os.Args[0])
			server.Env = append(os.Environ(), serverVariable+"="+network)
			server.Stderr = os.Stderr
			in, err := server.StdinPipe()
			require.NoError(t, err)
			out, err := server.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, server.Start())
			t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
			address, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)

			tr, opened, err := openForProcess(network)
			require.NoError(t, err)
			w := opened.(*worker)
			require.NoError(t, w.Connect(context.Background(), 0, []byte(strings.TrimSpace(address))))
			_, err = in.Write(append(w.Address(), '\n'))
			require.NoError(t, err)

			answered, killed, lost := 0, false, false
			call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, serverPayload)}}
			events := make([]transport.Event, 16)
			eventually(t, "the loss", func() bool {
				if _, err := w.Post(call); err != nil {
					require.ErrorIs(t, err, transport.ErrPeerDown)
				}
				require.NoError(t, w.Flush())
				n, err := w.Poll(events)
				require.NoError(t, err)
				for _, e := range events[:n] {
					if e.Kind == transport.EventPeerLost {
						require.True(t, killed)
						lost = true
					} else {
						answered++
					}
				}
				if answered >= 20 && !killed {
					killed = true
					require.NoError(t, server.Process.Kill())
				}
				return lost
			})
			_, err = w.Post(call)
			require.ErrorIs(t, err, transport.ErrPeerDown)
			require.Error(t, w.Silence(0))
			_ = server.Wait()
			require.NoError(t, tr.Close())
			require.Equal(t, before, descriptors(t))
			names, err := os.ReadFile("/proc/net/unix")
			require.NoError(t, err)
			require.NotContains(t, string(names), fmt.Sprintf("%s%d-", unixPrefix, server.Process.Pid))
		})
	}
}
