package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/replay"
)

// prepared writes n requests, one each microsecond, of clients 0 to 4 in turn, and returns the
// path.
func prepared(t testing.TB, n int) string {
	t.Helper()
	file, err := files.Temporary(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	w, err := replay.NewWriter(file)
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, w.Add(&replay.Record{At: uint64(i) * 1000, Key: uint32(i % 100),
			Size: uint32(i % 50), Client: uint32(i % 5), Op: uint8(i % 3)}))
	}
	require.NoError(t, w.Finish(make([]uint32, 100)))
	return files.PathOf(file)
}

// replaying returns a configuration with so many clients.
func replaying(clients int, rate config.Rate) *config.Config {
	c := config.Default()
	c.Clients, c.Rate, c.ValueSize, c.Keys = clients, rate, config.FixedSize(50), 100
	return &c
}

func newStream(t testing.TB, path string, cfg *config.Config, number int) *Stream {
	t.Helper()
	s, err := NewStream(path, cfg, number)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStreamOfEachClient(t *testing.T) {
	const n = 1003
	path := prepared(t, n)
	for _, clients := range []int{1, 2, 3, 7} {
		got := 0
		for number := range clients {
			s := newStream(t, path, replaying(clients, 1), number)
			for range 2 { // windows
				at, next := uint64(0), 0
				mine := func() bool { return next%5%clients == number }
				for ; next < n; next++ {
					if !mine() {
						continue
					}
					var r Request
					s.Next(&r)
					want := Request{Key: uint64(next % 100), Op: Op(next % 3)}
					if want.Op == Write {
						want.Size = next % 50
					}
					require.Equal(t, want, r)
					at += s.After()
					require.EqualValues(t, next*1000, at)
					got++
				}
				require.Greater(t, s.After(), uint64(time.Hour), "after the last one")
				var r Request
				s.Next(&r) // is never due
				require.Zero(t, s.Starved)
				require.NoError(t, s.Rewind())
			}
		}
		require.Equal(t, 2*n, got)
	}
}

func TestStreamOfFewerKeys(t *testing.T) {
	cfg := replaying(1, 1)
	cfg.Keys = 30
	s := newStream(t, prepared(t, 200), cfg, 0)
	for i := range 200 {
		var r Request
		s.Next(&r)
		require.EqualValues(t, i%100%30, r.Key)
	}
}

// TestStreamReadsOn takes more requests than the ring holds.
func TestStreamReadsOn(t *testing.T) {
	const n = 200_000
	path := prepared(t, n)
	for _, rate := range []config.Rate{1, 0} {
		s := newStream(t, path, replaying(256, rate), 0) // one of many has a small ring
		s.clients = 1                                    // but all of the requests
		require.NoError(t, s.Rewind())
		require.Less(t, len(s.ring), 1<<14)
		at, want := uint64(0), uint64(0)
		total, last := uint64(n), uint64(n)
		if rate == 0 { // begins again
			total, last = n+n/2, 2*n
		}
		for i := range total {
			for i%freeEvery == 0 && s.filled.Load() < min(i+2*freeEvery, last) && s.Starved == 0 {
				time.Sleep(10 * time.Microsecond) // the test is faster than a network
			}
			var r Request
			s.Next(&r)
			require.EqualValues(t, want%100, r.Key)
			if rate != 0 {
				at += s.After()
				require.Equal(t, want*1000, at)
			}
			if want++; want == n {
				want = 0
			}
		}
		require.Zero(t, s.Starved)
	}
}

// TestStreamMemory: the clients of all ranks share the memory for records.
func TestStreamMemory(t *testing.T) {
	path := prepared(t, 1<<18)
	cfg := replaying(2, 1)
	cfg.Ranks = 17
	require.Len(t, newStream(t, path, cfg, 0).ring, streamRecords/(16*2))
	cfg.Ranks, cfg.Clients = 2, 1
	require.Len(t, newStream(t, path, cfg, 0).ring, 1<<19, "room for all")
}

func TestStreamStarves(t *testing.T) {
	s := newStream(t, prepared(t, 1<<16), replaying(256, 1), 0)
	s.clients = 1
	require.NoError(t, s.Rewind())
	s.Stop() // the disk hangs
	var r Request
	for range len(s.ring) {
		s.Next(&r)
		s.After()
	}
	require.Zero(t, s.Starved)
	s.Next(&r)
	require.EqualValues(t, 1, s.Starved)
	require.EqualValues(t, time.Millisecond, s.After(), "the client asks again")
	require.EqualValues(t, 2, s.Starved)
	require.NoError(t, s.fill(nil)) // the disk is back
	require.NotEqual(t, uint64(never), s.After())
	require.EqualValues(t, 2, s.Starved)
	require.NoError(t, s.Rewind())
	require.Zero(t, s.Starved)
}

func TestClosedStreamBeginsAgain(t *testing.T) {
	s := newStream(t, prepared(t, 10), replaying(3, 0), 1)
	var keys []uint64
	for range 8 {
		var r Request
		s.Next(&r)
		keys = append(keys, r.Key)
	}
	require.Equal(t, []uint64{1, 4, 7, 1, 4, 7, 1, 4}, keys)
	_, err := NewStream(prepared(t, 2), replaying(3, 0), 1)
	require.ErrorContains(t, err, "2 requests to replay are too few for 3 clients")
}

func TestStreamAllocatesNothing(t *testing.T) {
	s := newStream(t, prepared(t, 5000), replaying(1, 1), 0)
	var r Request
	require.Zero(t, testing.AllocsPerRun(4000, func() {
		s.Next(&r)
		s.After()
	}))
}

func TestStreamRejects(t *testing.T) {
	cfg := replaying(1, 1)
	cfg.ValueSize = config.FixedSize(10) // smaller than the largest value
	_, err := NewStream(prepared(t, 100), cfg, 0)
	require.ErrorContains(t, err, "not a complete prepared trace")
	_, err = NewStream("/dev/null", cfg, 0)
	require.ErrorContains(t, err, "not a complete prepared trace")
}

func BenchmarkStream(b *testing.B) {
	s := newStream(b, prepared(b, 1<<16), replaying(1, 0), 0)
	b.ReportAllocs()
	for b.Loop() {
		var r Request
		s.Next(&r)
	}
}
