package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// sample is a set of two cells with results and one that failed.
func sample(t *testing.T) *set.Set {
	t.Helper()
	dir := t.TempDir()
	for inFlight := 1; inFlight <= 2; inFlight++ {
		h := record.NewHistogram()
		h.Record(uint64(100 * inFlight))
		h.Record(uint64(1000 * inFlight))
		encoded := h.Encode()
		r := &result.Result{
			SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
			StartedAt: time.Date(2026, 3, 4, 5, 6, inFlight, 0, time.UTC), Config: config.Default(),
			Plugin:      result.Plugin{Name: "shm", Version: "0.1.0", Provider: "mem fd"},
			Environment: machine.Environment{Identity: machine.Identity{CPU: "some \"cpu\""}},
		}
		r.Config.InFlight = inFlight
		for i := range 6 {
			r.Repeats = append(r.Repeats, result.Repeat{
				Index: i, StartedAt: r.StartedAt.Add(time.Duration(i) * time.Second),
				Latency: encoded,
				Samples: map[string]float64{result.Throughput: float64(1000*inFlight + i),
					result.LatencyP50: 120.5, result.FloorRatio: 2},
			})
		}
		r.Summary = result.SummarizeRepeats(r.Repeats)
		r.Summary[result.HarnessOverhead] = result.Summarize(result.HarnessOverhead, []float64{30})
		_, err := result.Write(dir, r)
		require.NoError(t, err)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	s.Sort()
	s.Cells = append(s.Cells, set.Cell{
		Config: map[string]string{"transport": "erpc", "in_flight": "1"}, Status: set.Failed,
		Reason: "it\ncrashed", Environment: -1,
	})
	return s
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, CSV(&out, sample(t)))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+6+6+1)
	require.Contains(t, rows[0], "throughput (op/s)")
	require.Equal(t, []string{"profile", "in_flight"}, rows[0][5:7])
	require.Equal(t, "shm", rows[1][0])
	require.Contains(t, rows[12], "2005")
	require.Equal(t, []string{"failed", "it\ncrashed"}, rows[13][3:5])
}

// A window without a floor has no ratio in its row, and later ones keep theirs.
func TestWindowWithoutFloor(t *testing.T) {
	s := sample(t)
	c := &s.Cells[0]
	c.Samples[result.FloorRatio] = []float64{20, 21, 23, 24, 25}
	c.Windows[2].NoFloor = true
	for name, write := range map[string]func(io.Writer, *set.Set) error{"csv": CSV,
		"benchfmt": Benchfmt} {
		var out bytes.Buffer
		require.NoError(t, write(&out, s))
		lines := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(line string) bool {
			// of the other cell
			return !strings.Contains(line, "100") || !strings.Contains(line, "120.5")
		})
		require.Len(t, lines, 6)
		for i, line := range lines {
			require.Equal(t, i != 2, strings.Contains(line, fmt.Sprint(20+i)), "%s: %s", name, line)
		}
	}
}

// The Go project's own reader accepts names and units.
func TestBenchfmt(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Benchfmt(&out, sample(t)))
	require.NotContains(t, out.String(), "erpc/in_flight=1/", "a failed cell is a comment")
	reader := benchfmt.NewReader(&out, "export")
	units := map[string]string{}
	lines := 0
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			lines++
			_, parts := record.Name.Parts()
			require.Equal(t, "/provider=mem_fd", string(parts[0]))
			value, ok := record.Value("latency_p50-sec")
			require.True(t, ok, "%v", record.Values)
			require.InDelta(t, 120.5e-9, value, 1e-15)
			_, ok = record.Value("throughput-op/s")
			require.True(t, ok)
			require.Equal(t, `some "cpu"`, record.GetConfig("cpu"))
		case *benchfmt.UnitMetadata:
			units[record.OrigUnit] = record.Value
		case *benchfmt.SyntaxError:
			require.Fail(t, record.Error())
		}
	}
	require.NoError(t, reader.Err())
	require.Equal(t, 12, lines)
	require.Equal(t, "higher", units["throughput-op/s"])
	require.Equal(t, "lower", units["latency_p50-ns"])
}

func TestHDRLog(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, HDRLog(&out, sample(t)))
	reader := hdrhistogram.NewHistogramLogReader(&out)
	tags := map[string]int{}
	for {
		h, err := reader.NextIntervalHistogram()
		require.NoError(t, err)
		if h == nil {
			break
		}
		tags[h.Tag()]++
		require.EqualValues(t, 2, h.TotalCount())
	}
	require.Equal(t, map[string]int{"shm_in_flight=1": 6, "shm_in_flight=2": 6}, tags)
}

func TestPercentiles(t *testing.T) {
	s := sample(t)
	var out bytes.Buffer
	require.NoError(t, Percentiles(&out, s, 1))
	require.Contains(t, out.String(), "Total count    =           12")
	require.Contains(t, out.String(), "2.000") // microseconds
	require.ErrorContains(t, Percentiles(&out, s, 2), "no histograms")
	lost := *s
	lost.Cells = []set.Cell{{Status: set.Measured, Files: []set.File{{Name: "gone.json"}}}}
	require.ErrorContains(t, Percentiles(&out, &lost, 0), "gone.json")
}

func TestWholeSetInOneFile(t *testing.T) {
	s := sample(t)
	var out bytes.Buffer
	require.NoError(t, s.EncodeWhole(&out))
	whole, err := set.Parse(out.Bytes(), "whole.json")
	require.NoError(t, err)
	require.Len(t, whole.Cells, 3)
	require.Len(t, whole.Cells[0].Results[0].Repeats, 6)
	var log bytes.Buffer
	require.NoError(t, HDRLog(&log, whole), "the file is self-contained")
	require.Contains(t, log.String(), "Tag=shm_in_flight=1")
	require.Equal(t, fmt.Sprint(s.Cells[0].Samples), fmt.Sprint(whole.Cells[0].Samples))
}

// A spreadsheet must not run what a result says. Numbers stay numbers.
func TestCSVHasNoFormulas(t *testing.T) {
	s := sample(t)
	s.Cells[2].Reason = "=HYPERLINK(\"http://example.com\")"
	s.Cells[2].Plugin.Version, s.Cells[2].Plugin.Provider = "@SUM(A1)", "＝1+1"
	s.Cells[2].Config["in_flight"] = "-1"
	s.Cells[0].Samples[result.Throughput][0] = -1.5
	var out bytes.Buffer
	require.NoError(t, CSV(&out, s))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"'@SUM(A1)", "'＝1+1"}, rows[13][1:3])
	require.Equal(t, "'=HYPERLINK(\"http://example.com\")", rows[13][4])
	require.Contains(t, rows[13], "-1")
	require.Contains(t, rows[1], "-1.5")

	for cell, want := range map[string]string{
		"-2.5e3": "-2.5e3", "+1": "+1", "+1+cmd|' /C calc'!A0": "'+1+cmd|' /C calc'!A0",
		"-x":   "'-x",
		"\t=1": "'\t=1", "\r": "'\r", "a=1": "a=1", "": "",
	} {
		out.Reset()
		require.NoError(t, doc.NewCSVWriter(&out).WriteAll([][]string{{"x", cell}}))
		row, err := csv.NewReader(&out).Read()
		require.NoError(t, err)
		require.Equal(t, want, strings.ReplaceAll(row[1], "\n", "\r"))
	}
}

// Names of metrics and of the machine's properties cannot make lines of their own.
func TestBenchfmtForeignNames(t *testing.T) {
	s := sample(t)
	s.Environments[0].Identity["BenchmarkFake 1 5 ns/op\nBenchmarkFake"] =
		"1 5 ns/op\nBenchmarkFake 1 6 ns/op"
	s.Cells[0].Samples["x 7 ns/op\nBenchmarkFake 1 8 ns/op"] = []float64{1, 2, 3, 4, 5, 6}
	var out bytes.Buffer
	require.NoError(t, Benchfmt(&out, s))
	require.NotContains(t, out.String(), "\nBenchmarkFake")
	require.NotContains(t, out.String(), " 7 ")
}
