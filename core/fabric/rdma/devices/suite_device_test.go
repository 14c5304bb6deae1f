package devices_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma"
)

var deviceTests = []test{
	{"device/attributes", deviceAttributes},
	{"device/endpoint-as-json", deviceEndpoint},
	{"device/memory", deviceMemory},
	{"device/registered-memory", deviceRegisteredMemory},
	{"device/many-pairs", deviceManyPairs},
	{"device/reopen", deviceReopen},
	{"device/no-allocation", deviceNoAllocation},
}

func deviceAttributes(t *testing.T, s *suite) {
	a, _ := s.pair(t, setup{separate: true})
	at := a.device.Attributes()
	require.Contains(t, []rdma.Provider{rdma.Verbs, rdma.Soft}, at.Provider)
	require.NotEmpty(t, at.Name)
	require.NotEmpty(t, at.Link)
	require.Positive(t, at.Port)
	require.Contains(t, []int{256, 512, 1024, 2048, 4096}, at.MTU)
	for name, limit := range map[string]int{"queue pairs": at.MaxQueuePairs,
		"send depth":    at.MaxSendDepth,
		"receive depth": at.MaxReceiveDepth, "shared receives": at.MaxShared,
		"completions": at.MaxCompletions,
		"message":     at.MaxMessage, "reads": at.MaxReadsInFlight} {
		require.Positive(t, limit, name)
	}
}

// deviceEndpoint connects with endpoints that went through JSON.
func deviceEndpoint(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{separate: true})
	through := func(x *side) (e rdma.Endpoint) {
		encoded, err := json.Marshal(x.qp.Endpoint())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(encoded, &e))
		require.Equal(t, x.qp.Endpoint(), e)
		return e
	}
	require.NoError(t, a.qp.Connect(through(b), s.Connect))
	require.NoError(t, b.qp.Connect(through(a), s.Connect))
	a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
	a.succeed(b, 1, rdma.Write)
}

func deviceMemory(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	// Regions reuse the entries of closed ones; their memory must be new and zeroed.
	for i := range 20 {
		r, err := a.device.Allocate(4096+i, allAccess)
		require.NoError(t, err)
		require.Len(t, r.Bytes, 4096+i)
		require.Equal(t, make([]byte, 4096+i), r.Bytes, "new memory is not zero")
		require.Zero(t, r.Address%4096, "alignment of the address")
		fill(r.Bytes, i)
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
	}
	a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
	a.succeed(b, 1, rdma.Write)
}

// deviceRegisteredMemory checks that registration has allocated the memory, and that the first
// message through a region takes no page fault for each page.
func deviceRegisteredMemory(t *testing.T, s *suite) {
	const size = 16 << 20
	a, b := s.pair(t, setup{memory: size})
	for _, x := range []*side{a, b} {
		require.Zero(t, absentPages(t, x.memory), "pages that registration has not allocated")
	}
	// a device may map the region of the peer now
	a.post(toward(a.request(rdma.Write, 1, 0, 0), b, 0))
	a.succeed(b, 1, rdma.Write)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
	a.post(toward(a.request(rdma.Write, 2, 0, size), b, 0))
	a.succeed(b, 2, rdma.Write)
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
	// The program has faults of its own, some hundreds.
	require.Less(t, int(after.Minflt-before.Minflt), size/os.Getpagesize()/4,
		"page faults of the first message")
}

// absentPages returns how many pages of a region an access would have to fault in.
func absentPages(t *testing.T, r *rdma.Region) (absent int) {
	pages, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer pages.Close()
	const entry, present = 8, 1 << 63 // Documentation/admin-guide/mm/pagemap.rst
	entries := make([]byte, len(r.Bytes)/os.Getpagesize()*entry)
	_, err = pages.ReadAt(entries, int64(r.Address)/int64(os.Getpagesize())*entry)
	require.NoError(t, err)
	for ; len(entries) > 0; entries = entries[entry:] {
		if binary.NativeEndian.Uint64(entries)&present == 0 {
			absent++
		}
	}
	return absent
}

// deviceManyPairs has several queue pairs per completion queue and shared receive queue.
func deviceManyPairs(t *testing.T, s *suite) {
	c := setup{shared: true}.complete(s)
	a, b := s.side(t, c), s.side(t, c)
	const pairs = 6
	var mine []rdma.QueuePair
	for i := range uint32(pairs) {
		ends := [2]rdma.QueuePair{}
		for k, x := range []*side{a, b} {
			qp, err := x.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected,
				Completions: x.cq,
				Shared:      x.srq, SendDepth: 16, MaxInline: 32, Cookie: 100 + i})
			require.NoError(t, err)
			ends[k] = qp
		}
		require.NoError(t, ends[0].Connect(ends[1].Endpoint(), s.Connect))
		require.NoError(t, ends[1].Connect(ends[0].Endpoint(), s.Connect))
		mine = append(mine, ends[0])
	}
	b.receive(depth, 0, 0)
	seen := map[uint32]uint32{}
	for round := range uint32(30) {
		for i, qp := range mine {
			r := toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 24), b, i*64)
			r.Immediate = round
			if round%8 != 7 {
				r.Flags = 0
			}
			n, err := qp.PostSend([]rdma.SendRequest{r})
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		until("all messages of a round", func() bool { return len(b.queue) == pairs }, b, a)
		for _, c := range b.queue {
			require.Equal(t, rdma.StatusOK, c.Status)
			require.Equal(t, seen[c.QueuePair], c.Immediate, "order on queue pair %d", c.QueuePair)
			seen[c.QueuePair]++
		}
		b.receive(len(b.queue), 0, 0)
		b.queue = nil
		a.poll()
	}
	require.Len(t, seen, pairs)
}

func deviceReopen(t *testing.T, s *suite) {
	for range 20 {
		t.Run("again", func(t *testing.T) {
			a, b := s.pair(t, setup{memory: 64 << 10})
			a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
			a.succeed(b, 1, rdma.Write)
		})
	}
}

func deviceNoAllocation(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{shared: true})
	requests := []rdma.SendRequest{toward(a.request(rdma.WriteWithImmediate, 1, 0, 32), b, 0),
		toward(a.request(rdma.WriteWithImmediate, 2, 0, 5000), b, 0)}
	receives := make([]rdma.ReceiveRequest, 2)
	completions := make([]rdma.Completion, 8)
	round := func() {
		_, _ = b.srq.PostReceive(receives)
		_, _ = a.qp.PostSend(requests)
		for sent, received := 0, 0; sent < 2 || received < 2; {
			n, _ := a.cq.Poll(completions)
			sent += n
			n, _ = b.cq.Poll(completions)
			received += n
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	round()
	require.Zero(t, testing.AllocsPerRun(100, round), "allocations in posting and polling")
}
