package tcpx

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// serverVariable turns the test binary into a server process. It prints its address, reads the
// test's, and answers calls until it is killed or the peer is lost. The value is the numbers of
// sockets and threads.
const serverVariable = "TCPX_TEST_SERVER"

const serverPayload = 4 << 20

func runServer() bool {
	sockets, threads, asked := strings.Cut(os.Getenv(serverVariable), " ")
	if !asked {
		return false
	}
	if err := serve(sockets, threads); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func openForProcess(sockets, threads string) (transport.Transport, transport.Worker, error) {
	values, err := transport.ParseOptions(schema, map[string]string{"sockets": sockets, "threads": threads})
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

func serve(sockets, threads string) error {
	_, w, err := openForProcess(sockets, threads)
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

// TestKilledProcess kills a peer in the middle of large transfers: Poll reports the loss, and
// all pages and sockets are released.
func TestKilledProcess(t *testing.T) {
	for _, connection := range []string{"1 0", "3 0", "3 2"} {
		sockets, threads, _ := strings.Cut(connection, " ")
		t.Run(connection, func(t *testing.T) {
			server := exec.Command(os.Args[0])
			server.Env = append(os.Environ(), serverVariable+"="+connection)
			server.Stderr = os.Stderr
			in, err := server.StdinPipe()
			require.NoError(t, err)
			out, err := server.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, server.Start())
			t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
			address, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)

			tr, opened, err := openForProcess(sockets, threads)
			require.NoError(t, err)
			defer tr.Close()
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
			eventually(t, "helpers to let go", func() bool { w.releaseLost(); return len(w.releasing) == 0 })
			requireAllPages(t, w.memory, w.settings)
			require.Equal(t, -1, w.peers.Get(0).conn.control.fd, "the control socket")
			for i := range w.peers.Get(0).conn.lanes {
				require.Equal(t, -1, w.peers.Get(0).conn.lanes[i].FD, "data socket %d", i)
			}
		})
	}
}
