package ucxam

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
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

// growRole is the role of grow. Its config is a growth.
const growRole = "grow"

// growth is how many messages grow sends and receives.
type growth struct {
	fabrictest.Rank
	Messages int
}

func checkGrowth(t testing.TB, total int) {
	g := growth{fabrictest.Rank{Options: map[string]string{optionTLS: "posix"}, MaxPayload: 64,
		InFlight: 32}, total}
	server := fabrictest.StartEcho(t, g.Rank)
	client := fabrictest.Meet(fabrictest.Start(t, growRole, g))
	server.Join(client.Address)
	client.Join(server.Address)
	var grown int
	client.Receive(&grown)
	before := [2]int64{resident(t, client), resident(t, server)}
	client.Send("go on")
	client.Receive(&grown)
	require.Equal(t, total/2, grown, "calls")
	after := [2]int64{resident(t, client), resident(t, server)}
	for i, who := range []string{"client", "server"} {
		require.Less(t, after[i]-before[i], int64(2<<20), "growth of the %s in bytes", who)
	}
}

// grow makes a tenth of its calls, sends their number and waits for the parent, and then does so
// with the rest.
func grow(p *fabrictest.Parent) error {
	var g growth
	if err := p.Config(&g); err != nil {
		return err
	}
	_, w, err := open(g.Rank)
	if err != nil {
		return err
	}
	if err := p.Join(w); err != nil {
		return err
	}
	ops := make([]transport.Op, g.InFlight)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: make([]byte, 48)}
	}
	events := make([]transport.Event, 64)
	for _, messages := range []int{g.Messages / 10, g.Messages} {
		// A call and its response are two messages.
		waiting, calls := len(ops), messages/2
		for left, answered := calls, 0; answered < calls; {
			n, err := w.Post(ops[:min(waiting, left)])
			if err != nil {
				return err
			}
			waiting -= n
			left -= n
			if err := w.Flush(); err != nil {
				return err
			}
			if n, err = w.Poll(events); err != nil {
				return err
			}
			waiting += n
			answered += n
		}
		if err := p.Send(calls); err != nil {
			return err
		}
		var goOn string
		if err := p.Receive(&goOn); err != nil {
			return err
		}
	}
	return nil
}

// resident returns the resident memory of a child in bytes.
func resident(t testing.TB, c *fabrictest.Echoer) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", c.PID))
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
	stats := tr.(transport.StatsReader).ReadStats(nil)
	require.GreaterOrEqual(t, transport.StatValue(stats, transport.StatRegisteredBytes),
		uint64(4*4096))
	require.Positive(t, transport.StatValue(stats, transport.StatRegisterTime))
}
