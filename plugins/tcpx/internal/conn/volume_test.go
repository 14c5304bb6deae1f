package conn

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/sock"

	"github.com/stretchr/testify/require"
)

// volumeVariable makes TestThousandTransfers run, which takes minutes: all of it, or a part such
// as 250-500.
const volumeVariable = "TCPX_TEST_VOLUME"

// TestThousandTransfers sends a thousand transfers of 0 to 64 MiB, 32 GB in all, and
// compares every byte.
func TestThousandTransfers(t *testing.T) {
	asked := os.Getenv(volumeVariable)
	if asked == "" {
		t.Skip("1000 transfers of up to 64 MiB; run with " + volumeVariable +
			"=1, or with a part of them, such as 250-500")
	}
	from, to := 0, 1000
	if asked != "1" {
		_, err := fmt.Sscanf(asked, "%d-%d", &from, &to)
		require.NoError(t, err, asked)
	}
	transfers(t, from, to, 64<<20)
}

// TestChunksCostTheSame: the hundred thousandth chunk takes as many system calls as the first
// and allocates nothing.
func TestChunksCostTheSame(t *testing.T) {
	total := 100_000
	if fabrictest.Race {
		total = 5_000
	}
	a, b := pair(t, map[string]string{"chunk": "4KiB", "sockets": "2"}, 1<<20)
	data := random(7, 4<<10)
	one := func() {
		for a.Out.Posted()-a.Out.requests.First() < Requests &&
			b.In.Posted()-b.In.Consumed() < Requests {
			if b.In.PostReceive(b.Destination.Slice(0, len(data)), b.In.Posted()) != nil ||
				a.Out.PostSend(data, a.Out.Posted()) != nil {
				panic("a request was refused")
			}
		}
		if a.Progress() != nil || b.Progress() != nil {
			panic("the connection failed")
		}
		for consumed(b) {
		}
		a.Out.FreeAll()
	}
	perChunk := func(chunks uint64) (calls float64) {
		before := a.Counters.Calls[sock.Sends] + b.Counters.Calls[sock.Receives]
		from := b.Counters.Consumes
		for b.Counters.Consumes < from+chunks {
			one()
		}
		return float64(a.Counters.Calls[sock.Sends]+b.Counters.Calls[sock.Receives]-before) /
			float64(b.Counters.Consumes-from)
	}
	// Take the minimum of several runs: while the kernel is late with what was sent, the receiver
	// finds nothing.
	fewest := func() float64 {
		best := perChunk(200)
		for range 4 {
			best = min(best, perChunk(200))
		}
		return best
	}
	first := fewest()
	perChunk(uint64(total) - 2000)
	eventually(t, "the last chunks to take as few calls as the first",
		func() bool { return perChunk(200) <= first+0.5 })
	require.LessOrEqual(t, b.Counters.ReceivePeak, uint64(Requests))
	require.Zero(t, testing.AllocsPerRun(100, one), "allocations")
}

// TestTransfers sends a few transfers of random sizes with random options.
func TestTransfers(t *testing.T) { transfers(t, 0, 12, 2<<20) }

// transfers checks transfers of up to limit bytes, byte for byte. The number of a transfer
// determines everything about it.
func transfers(t *testing.T, from, to, limit int) {
	data := random(9, limit)
	for i := from; i < to; i++ {
		dice := rand.New(rand.NewPCG(uint64(i), uint64(limit)))
		pick := func(values ...string) string { return values[dice.IntN(len(values))] }
		chunk, sockets := pageSize<<dice.IntN(8), 1+dice.IntN(6)
		options := map[string]string{
			"chunk": fmt.Sprint(chunk), "request": fmt.Sprint(chunk << dice.IntN(3)),
			"send-window":    fmt.Sprint(1 + dice.IntN(Requests)),
			"receive-window": fmt.Sprint(1 + dice.IntN(Requests)),
			"sockets":        fmt.Sprint(sockets), "threads": fmt.Sprint(dice.IntN(sockets + 1)),
			"striping":       pick(stripeRoundRobin, stripeLeastLoaded),
			"unpack-workers": fmt.Sprint(dice.IntN(4)), "zero-copy": pick(zeroCopyOff, zeroCopyOff,
				zeroCopyOn),
		}
		size := dice.IntN(limit + 1)
		if dice.IntN(8) == 0 {
			size = dice.IntN(20)
		}
		transferOnce(t, options, data[:size], time.Duration(dice.IntN(300))*time.Microsecond)
		if t.Failed() {
			t.Logf("transfer %d of %d bytes with %v", i, size, options)
			return
		}
	}
}
