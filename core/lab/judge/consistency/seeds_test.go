package consistency_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const seeds = "../../../../results/published/"

func readPublished(t *testing.T, path string) *published.Document {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	document, err := jsondoc.New(text)
	require.NoError(t, err, path)
	d, err := published.Parse(document)
	require.NoError(t, err, path)
	return d
}

// The contradictions in the seed documents are found by their own figures alone.
func TestContradictionsOfTheSeedDocuments(t *testing.T) {
	for _, test := range []struct {
		file, row string // row is empty for a finding of the document
		severity  result.Severity
		want      []string
	}{
		// The time of the two-rank run is 30 s by its counters and by its loops.
		{"benchkv-2rank", "2 ranks", result.Error,
			[]string{"daemon of rank 0", "0.0682 requests in each of 978 M loops",
				"29.9 s, not 15.0 s"}},
		{"benchkv-2rank", "2 ranks", result.Error,
			[]string{"daemon of rank 1", "30.1 s, not 15.0 s"}},
		{"benchkv-2rank", "2 ranks", result.Error,
			[]string{"978 M loops of 30.0 ns are 29.3 s, not 15.0 s", "15.3 ns"}},
		{"benchkv-2rank", "2 ranks", result.Error, []string{"1.66 times requests forwarded"}},
		// Lookups and reads leave 44 to 64% of an iteration unexplained.
		{"kvstore", "1 in flight in all", result.Warning,
			[]string{"278 ms", "7 lookups at the median of 4.95 ms", "leave 47% unexplained",
				"43.4 ms each"}},
		{"kvstore", "6 in flight in all", result.Warning, []string{"leave 44% unexplained"}},
		{"kvstore", "32 in flight in all", result.Warning, []string{"leave 61% unexplained"}},
		{"kvstore", "64 in flight in all", result.Warning,
			[]string{"795 ms", "leave 64% unexplained"}},
		{"kvstore", "", result.Warning, []string{"averages over 8 processes", "merge histograms"}},
		{"tcpx", "asynchronous unpack kernel", result.Error,
			[]string{"2.68 GB/s, not 20.0 GB/s", "bits taken for bytes"}},
		{"tcpx", "asynchronous unpack kernel", result.Error,
			[]string{"1.60 times 4 NICs of 25 Gbit/s (12.5 GB/s)"}},
		{"mooncake-shm", "", result.Warning, []string{"the authors expect 13 of 13 rows"}},
		{"mooncake-shm", "shared-memory allocation, upper end", result.Warning,
			[]string{"factor of 20.0 to 500, but 100 is claimed"}},
		{"mooncake-shm", "address look-up, linear over 100 segments, upper end", result.Warning,
			[]string{"factor of 10.0 to 200"}},
		{"mooncake-shm", "shared-memory allocation, upper end", result.Warning,
			[]string{"the timed loop of an allocation by size",
				"shm_open, ftruncate and mmap: munmap, close and shm_unlink"}},
		{"mooncake-shm", "address look-up, linear over 100 segments, upper end", result.Warning,
			[]string{"find nothing", "about 0.477 of 10000 lookups"}},
		{"mooncake-shm", "memcpy of 4 KiB, upper end", result.Error,
			[]string{"30.0 GB/s, 3.00 times"}},
		{"copyrpc", "inproc fastforward", result.Error,
			[]string{"90.2 M op/s, 2.71 times", "theoretical limit"}},
		{"copyrpc", "4 nodes, all to all, std mpsc, notify", result.Error,
			[]string{"124 K op/s, not 495 K op/s", "for each of 4"}},
		{"copyrpc", "benchkv on 2 nodes, UCX-AM", result.Error,
			[]string{"20.4 M op/s, 1.37 times"}},
		{"copyrpc", "benchkv on 2 nodes, UCX-AM", result.Warning,
			[]string{"add up to 80.0 %, and leave 20% unexplained"}},
		{"copyrpc", "benchkv, copyrpc Meta in theory", result.Warning,
			[]string{"6.74 us", "add up to 5.40 us, and leave 20% unexplained"}},
		{"copyrpc", "doorbells at once, upper end", result.Error,
			[]string{"factor of 1.23 to 1.61, but 1.50 to 2.00 is claimed"}},
		// A way counted as a round trip, and the inverse of a throughput as a time.
		{"copyrpc", "benchkv, copyrpc Meta in theory", result.Error,
			[]string{"630 ns over 316 ns", "2.00, but 1.00 is claimed"}},
		{"copyrpc", "benchkv, copyrpc Meta in theory", result.Error,
			[]string{"5.43 us over 170 ns"}},
		// Rows that are compared have other numbers of calls in flight.
		{"copyrpc", "erpc, 16 in flight", result.Error, []string{"32.0 op over 16.0 op"}},
		{"copyrpc", "erpc, 8 queue pairs, 32 in flight", result.Error, []string{"over 256 op"}},
		{"kvstore", "32 in flight in all", result.Error,
			[]string{"19.0 server over 14.0 server"}},
		{"tcpx", "asynchronous unpack kernel", result.Error,
			[]string{"8.00 ms over 25.0 ms", "0.320, but 1.00 is claimed"}},
		{"tcpx", "synchronous unpack kernel", result.Error,
			[]string{"is 70.4 ms, 2.82 times the whole transfer"}},
		{"tcpx", "asynchronous unpack kernel", result.Error,
			[]string{"a stream and a launcher", "1.15, but 100 is claimed"}},
		{"tcpx", "asynchronous unpack kernel", result.Error,
			[]string{"launched synchronously", "7.85, but 50.0 is claimed"}},
		{"copyrpc", "erpc, 8 queue pairs, 32 in flight", result.Error,
			[]string{"6.09 M op/s over 4.97 M op/s"}},
		{"copyrpc", "mlx5 write with immediate", result.Error, []string{"2.97 us, 52.7 times"}},
	} {
		d := readPublished(t, seeds+test.file+".json")
		found := consistency.Document(d)
		if test.row != "" {
			found = consistency.Row(rowOf(t, d, test.row))
		}
		require.True(t, has(found, test.severity, test.want), "%s: %s: %q is not among %v",
			test.file, test.row, test.want, found)
	}
}

// Consistent rows have no findings.
func TestConsistentRowsOfTheSeedDocuments(t *testing.T) {
	for file, rows := range map[string][]string{
		"benchkv-2rank": {"1 rank", "ping-pong"},
		// 21% and 27% have different bases, and 4.7 is of the row with 8 sessions.
		"copyrpc": {"ipc ping-pong", "ipc, 16 clients", "copyrpc, 8 endpoints, 256 in flight",
			"copyrpc, 1 endpoint", "erpc, 8 sessions", "erpc, 256 in flight", "erpc ping-pong",
			"mlx5 1 MiB read"},
	} {
		d := readPublished(t, seeds+file+".json")
		for _, name := range rows {
			require.Empty(t, consistency.Row(rowOf(t, d, name)), "%s: %s", file, name)
		}
	}
}

// Exactly the rows with an error have a note that their figures contradict each other.
func TestEveryAdmittedContradictionIsFound(t *testing.T) {
	for _, file := range []string{"benchkv-2rank", "copyrpc", "kvstore", "mooncake-shm", "tcpx"} {
		d := readPublished(t, seeds+file+".json")
		for i := range d.Rows {
			r := &d.Rows[i]
			require.Equal(t, r.Contradiction != "", has(consistency.Row(r), result.Error, nil),
				"%s: %s", file, r.Name)
		}
	}
}

// A row of contradictory figures is refused unless it says so.
func TestUnadmittedContradictionIsRefused(t *testing.T) {
	for note, want := range map[string]string{
		"":                      `reading a paper: row "a row": 2000000 op in 4.00 s are 500 K op/s, not 1.00 M op/s`,
		"the time and the rate": "",
	} {
		s, err := set.Parse([]byte(`{"schema_version": "1.0.0", "kind": "published", "source": "a paper", "conditions": {}, "rows": [
			{"name": "a row", "config": {"transport": "x"}, "metrics": {"throughput": {"value": 1e6, "unit": "op/s"}}, "contradiction": "`+note+`",
			 "work": [{"amount": 2e6, "unit": "op", "seconds": 4, "per_second": 1e6}]}]}`), "paper.json")
		require.NoError(t, err)
		s.Source = "a paper"
		if want != "" {
			require.ErrorContains(t, consistency.Set(s), want)
			require.ErrorContains(t, consistency.Set(s), "say so in the row's contradiction")
			continue
		}
		require.NoError(t, consistency.Set(s))
		require.Equal(t, "work", s.Cells[0].Warnings[0].Name)
	}
}

func rowOf(t *testing.T, d *published.Document, name string) *published.Row {
	t.Helper()
	for i := range d.Rows {
		if d.Rows[i].Name == name {
			return &d.Rows[i]
		}
	}
	t.Fatalf("no row %q", name)
	return nil
}

func has(found []result.Finding, severity result.Severity, want []string) bool {
	for _, c := range found {
		all := c.Severity == severity && !c.OK
		for _, part := range want {
			all = all && strings.Contains(c.Message, part)
		}
		if all {
			return true
		}
	}
	return false
}
