package ucxam

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// messagesInShort is how many messages TestNoGrowth sends under -short.
const messages, messagesInShort = 2_000_000, 200_000

// TestNoGrowth: the memory of both processes is the same after millions of
// messages as after the first ones. BenchmarkGrowth sends ten million.
func TestNoGrowth(t *testing.T) {
	needUCX(t)
	total := messages
	if testing.Short() {
		total = messagesInShort
	}
	checkGrowth(t, total)
}

// BenchmarkGrowth is TestNoGrowth for ten million messages.
func BenchmarkGrowth(b *testing.B) {
	needUCX(b)
	for range b.N {
		checkGrowth(b, 10_000_000)
	}
}

func init() { childRoles["grow"] = growFor }

func checkGrowth(t testing.TB, total int) {
	r := role{Name: "echo", Options: map[string]string{optionTLS: "posix"}, MaxPayload: 64,
		InFlight: 32, Size: total, CPU: -1}
	server, serverAddress := start(t, r)
	r.Name = "grow"
	client, clientAddress := start(t, r)
	server.meet(t, clientAddress)
	client.meet(t, serverAddress)
	require.Equal(t, "\"warm\"", client.line(t))
	before := [2]int64{resident(t, client), resident(t, server)}
	_, err := fmt.Fprintln(client.in, "go on")
	require.NoError(t, err)
	require.Equal(t, "\"done\"", client.line(t))
	after := [2]int64{resident(t, client), resident(t, server)}
	for i, who := range []string{"client", "server"} {
		require.Less(t, after[i]-before[i], int64(2<<20), "growth of the %s in bytes", who)
	}
	_, err = fmt.Fprintln(client.in, "end")
	require.NoError(t, err)
}

// growFor makes a tenth of its calls, waits for a line, and then makes the rest.
func growFor(r role, w *worker) (any, error) {
	lines := bufio.NewScanner(os.Stdin)
	ops := make([]transport.Op, r.InFlight)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, 48)}
	}
	events := make([]transport.Event, 64)
	for _, stretch := range []struct {
		messages int
		said     string
	}{{r.Size / 10, "warm"}, {r.Size, "done"}} {
		// A call and its response are two messages.
		waiting := len(ops)
		for left, answered := stretch.messages/2, 0; answered < stretch.messages/2; {
			n, err := w.Post(ops[:min(waiting, left)])
			if err != nil {
				return nil, err
			}
			waiting -= n
			left -= n
			if err := w.Flush(); err != nil {
				return nil, err
			}
			if n, err = w.Poll(events); err != nil {
				return nil, err
			}
			waiting += n
			answered += n
		}
		if err := json.NewEncoder(os.Stdout).Encode(stretch.said); err != nil {
			return nil, err
		}
		lines.Scan()
	}
	return nil, nil
}

// resident returns the resident memory of a child in bytes.
func resident(t testing.TB, c *child) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.cmd.Process.Pid))
	require.NoError(t, err)
	var size, pages int64
	_, err = fmt.Sscan(string(text), &size, &pages)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// TestRegistered: the memory of messages is registered with UCX when a worker is made.
func TestRegistered(t *testing.T) {
	tr, _, err := openWith(t, map[string]string{optionTLS: "posix"}) // 4 calls in flight of 4 KiB
	require.NoError(t, err)
	bytes, took := tr.(transport.RegistrationReader).Registered()
	require.GreaterOrEqual(t, bytes, uint64(4*4096))
	require.Positive(t, took)
}
