package transporttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// serverVariable turns a test binary into the server of KillProcess. Its value is the options, as
// JSON.
const serverVariable = "TRANSPORTTEST_SERVER"

// serverPayload is the size of the calls in which the server is killed.
const serverPayload = 4 << 20

// ServeProcess serves a test that called KillProcess, if that test started this process, and
// reports whether it did. TestMain calls it first, and returns if it reports true.
func ServeProcess(driver transport.Driver) bool {
	encoded, asked := os.LookupEnv(serverVariable)
	if !asked {
		return false
	}
	if err := serveProcess(driver, encoded); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// serveProcess prints its address, reads the caller's, and answers calls until the caller is lost.
func serveProcess(driver transport.Driver, encoded string) error {
	var options map[string]string
	if err := json.Unmarshal([]byte(encoded), &options); err != nil {
		return err
	}
	_, w, err := openForProcess(driver, options)
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
			replies = append(replies, transport.Op{Kind: transport.OpReply, Peer: e.Peer,
				Token: e.Token})
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

func openForProcess(driver transport.Driver, options map[string]string) (transport.Transport,
	transport.Worker, error) {
	parsed, err := transport.ParseOptions(driver.Info().Options, options)
	if err != nil {
		return nil, nil, err
	}
	tr, err := driver.Open(context.Background(), transport.Config{Workers: 1, Peers: 1, InFlight: 8,
		MaxPayload: serverPayload, Options: parsed})
	if err != nil {
		return nil, nil, err
	}
	w, err := tr.NewWorker(0)
	return tr, w, err
}

// KillProcess starts this test binary as a server, which must call [ServeProcess], and kills it in
// the middle of large calls. It requires that Poll then reports the loss once and Post refuses more
// calls, and returns the caller, which the test closes, and the number of the dead process.
func KillProcess(t *testing.T, driver transport.Driver, options map[string]string) (
	tr transport.Transport, w transport.Worker, pid int) {
	t.Helper()
	encoded, err := json.Marshal(options)
	require.NoError(t, err)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"="+string(encoded))
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	require.NoError(t, err)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	tr, w, err = openForProcess(driver, options)
	require.NoError(t, err)
	require.NoError(t, w.Connect(t.Context(), 0, []byte(strings.TrimSpace(address))))
	_, err = in.Write(append(w.Address(), '\n'))
	require.NoError(t, err)

	call := []transport.Op{{Kind: transport.OpCall, Payload: make([]byte, serverPayload)}}
	events := make([]transport.Event, 16)
	deadline := time.Now().Add(time.Minute)
	for answered, killed, lost := 0, false, false; !lost; {
		require.True(t, time.Now().Before(deadline),
			"no loss is reported after a minute; %d calls were answered", answered)
		if _, err := w.Post(call); err != nil {
			require.ErrorIs(t, err, transport.ErrPeerDown)
		}
		require.NoError(t, w.Flush())
		n, err := w.Poll(events)
		require.NoError(t, err)
		for _, e := range events[:n] {
			require.False(t, lost, "an event after the loss")
			if lost = e.Kind == transport.EventPeerLost; !lost {
				answered++
			}
		}
		require.True(t, killed || !lost, "the peer is lost before it is killed")
		if answered >= 20 && !killed {
			killed = true
			require.NoError(t, server.Process.Kill())
		}
	}
	n, err := w.Poll(events)
	require.NoError(t, err)
	require.Zero(t, n, "events after the loss")
	_, err = w.Post(call)
	require.ErrorIs(t, err, transport.ErrPeerDown)
	return tr, w, server.Process.Pid
}
