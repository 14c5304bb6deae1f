package perf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func recorded(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(text)
}

// The lines of stat.csv have the form that perf 6.1 prints, with invented counts.
func TestParseStat(t *testing.T) {
	list, err := ParseStat([]byte(recorded(t, "stat.csv")))
	require.NoError(t, err)
	require.Len(t, list, 4)
	daemon, client := list[0], list[1]
	require.Equal(t, "daemon 0", daemon.Name)
	require.Equal(t, []int{0, 31858}, []int{daemon.Rank, daemon.TID})
	require.True(t, daemon.Polls())
	require.Equal(t, "client 0", client.Name)
	require.Equal(t, []int{1, 31854}, []int{client.Rank, client.TID})
	require.InDelta(t, 0.55, daemon.Ratios["ipc"], 1e-4)
	require.InDelta(t, 0.0041, daemon.Ratios["l1_miss"], 1e-6)
	require.InDelta(t, 0.0154, daemon.Ratios["llc_miss"], 1e-6)
	require.NotContains(t, daemon.Counts, "cache-misses", "not supported")
	require.NotContains(t, daemon.Ratios, "cache_miss", "not supported")
	require.InDelta(t, 0.2, client.Ratios["cache_miss"], 1e-6)
	require.Equal(t, uint64(5_000_000), client.Counts["LLC-loads"])

	require.Equal(t, "transport-shm", list[2].Name)
	require.Equal(t, 31862, list[2].TID, "the busier one first")
	require.False(t, list[2].Polls())
	require.Empty(t, list[3].Counts)
	require.Empty(t, list[3].Ratios)
}

func TestParseStatVariants(t *testing.T) {
	list, err := ParseStat([]byte("r10 c1023-7;100;;cpu_core/cycles/u;5;100.00;;\nr10 " +
		"c1023-7;50;;cpu_atom/cycles/;5;100.00;;\n" +
		"r10 c1023-7;300;;instructions:u;5;100.00;2.0;insn per cycle\n " +
		"a-b-9;0;;cycles:u;5;100.00;;\n"))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "client 1023", list[0].Name)
	require.Equal(t, 10, list[0].Rank)
	require.InDelta(t, 2, list[0].Ratios["ipc"], 1e-9, "both kinds of cores")
	require.Equal(t, "a-b", list[1].Name)
	require.Empty(t, list[1].Ratios, "no instructions")

	for text, problem := range map[string]string{
		"":                    "counted no event",
		"# started on Monday": "counted no event",
		"sleep-9292;<not supported>;;cycles;0;100.00;;\n": "counted no event",
		"nonsense":                   "no reading of a thread",
		"12;;cycles;0;100.00;;":      "begins with no thread",
		"a-1;1,5;;cycles;0;100.00;;": `"1,5" is no count`,
	} {
		_, err := ParseStat([]byte(text))
		require.ErrorContains(t, err, problem, text)
	}
}

// perf 6.1 printed c2c.txt. It read samples of a clock from a run of shm, whose addresses and
// sources of data were set to those of loads and stores.
func TestParseC2C(t *testing.T) {
	s, err := ParseC2C([]byte(recorded(t, "c2c.txt")))
	require.NoError(t, err)
	require.Equal(t, "Total HITMs", s.SortedOn)
	for name, value := range map[string]float64{
		"Total records": 631, "Load Local HITM": 215, "Load Remote HITM": 15,
		"Total Shared Cache Lines":          7,
		"LLC Misses to Remote cache (HITM)": 100,
	} {
		f, ok := s.Figure(name)
		require.True(t, ok, name)
		require.InDelta(t, value, f.Value, 1e-9, name)
		require.Equal(t, strings.HasPrefix(name, "LLC Misses"), f.Percent, name)
		require.Equal(t, name == "Total Shared Cache Lines", f.OnShared, name)
	}

	require.Len(t, s.Lines, 7)
	first := s.Lines[0]
	require.Equal(t, "0x7f0e21d26040", first.Address)
	require.InDelta(t, 48.70, first.Percent, 1e-9)
	require.Equal(t, []uint64{106, 6, 281, 221, 60},
		[]uint64{first.Local, first.Remote, first.Records, first.Loads, first.Stores})
	require.Empty(t, s.Lines[2].Accesses, "left out of the file")

	// The accesses add up to the line.
	for _, line := range s.Lines[:2] {
		var local, remote, stores uint64
		seen := map[string]bool{}
		for i, a := range line.Accesses {
			local, remote, stores = local+a.Local, remote+a.Remote, stores+a.Stores
			key := a.Thread.Name + a.Offset + a.Symbol
			require.False(t, seen[key], "rows of the same function are one: %s", key)
			seen[key] = true
			if i > 0 {
				require.LessOrEqual(t, a.Local+a.Remote, line.Accesses[i-1].Local+
					line.Accesses[i-1].Remote)
			}
		}
		require.Equal(t, []uint64{line.Local, line.Remote, line.Stores},
			[]uint64{local, remote, stores}, line.Address)
	}
	var names []string
	for _, a := range first.Accesses {
		names = append(names, a.Name)
		require.Contains(t, []string{"0x0", "0x8"}, a.Offset)
		require.Equal(t, a.Rank == 0, a.Name == "daemon 0")
	}
	require.Contains(t, names, "daemon 0")
	require.Contains(t, names, "client 0")
	poll := first.Accesses[0]
	require.Contains(t, poll.Symbol, "transportbench/core/")
	require.Equal(t, "transport-shm", poll.Object)
}

// Before perf 5.10 the table had other columns, and arm64 counts snoops of peers.
func TestParseC2CVariants(t *testing.T) {
	text := recorded(t, "c2c.txt")
	for name, replace := range map[string][]string{
		"older": {"Total  LclHitm  RmtHitm  records", "Total      Lcl      Rmt  records"},
		"peer": {" Hitm    Total  LclHitm  RmtHitm  records",
			"Snoop    Total    Local   Remote  records"},
	} {
		changed := strings.NewReplacer(replace...).Replace(text)
		require.NotEqual(t, text, changed)
		s, err := ParseC2C([]byte(changed))
		require.NoError(t, err, name)
		require.Equal(t, uint64(106), s.Lines[0].Local, name)
		require.Equal(t, uint64(6), s.Lines[0].Remote, name)
	}

	lines := strings.Index(text, "      0      0x")
	end := lines + strings.Index(text[lines:], "\n\n")
	pareto := strings.Index(text, "#   Num")
	s, err := ParseC2C([]byte(text[:lines] + text[end:pareto]))
	require.NoError(t, err, "no line is shared")
	require.Empty(t, s.Lines)

	columns := "LclHitm  RmtHitm  records"
	for name, c := range map[string]struct{ text, problem string }{
		"nothing": {"", `no "Trace Event Information"`},
		"cut":     {text[:lines], `no "Shared Cache Line Distribution Pareto"`},
		"no column": {strings.Replace(text, "  Hitm    Total", " Other    Total", 1),
			"no column Hitm or Snoop; it has Index, Address"},
		"order": {strings.Replace(text, columns, "RmtHitm  LclHitm  records", 1),
			"unknown order"},
		"no HITMs": {strings.Replace(text, columns, "  other    other  records", 1),
			"unknown order"},
		"no count": {strings.Replace(text, "112      106", "112      1o6", 1), "1o6"},
		"no field": {strings.Replace(text, "112      106", "112         ", 1),
			"has 22 columns and not 23"},
		"access": {text + "  what is this\n", "no access to a line"},
		"too many": {text +
			"     99        6      106       56        4        0      0x7f0e21d26040\n",
			"table has 7 lines"},
	} {
		_, err := ParseC2C([]byte(c.text))
		require.ErrorContains(t, err, c.problem, name)
	}
}

// A script in place of perf shows how it is called and read.
func TestPerf(t *testing.T) {
	dir := t.TempDir()
	testdata, err := filepath.Abs("testdata")
	require.NoError(t, err)
	p := &Perf{Program: filepath.Join(dir, "perf")}
	script := func(text string) {
		require.NoError(t, os.WriteFile(p.Program, []byte("#!/bin/sh\n"+text), 0o755))
	}
	const pids = "-p 12,34 -- sleep 0.250"
	script(`case "$*" in
"stat -x ; --per-thread -e {cycles,instructions},{L1-dcache-loads,L1-dcache-load-misses},{LLC-loads,LLC-load-misses},{cache-references,cache-misses} -o ` + dir + `/perf-stat.csv ` + pids + `") cp ` + testdata + `/stat.csv "$8" ;;
"c2c record -- -o ` + dir + `/perf.data ` + pids + `") : >"$5" ;;
"c2c report -i ` + dir + `/perf.data --stdio --full-symbols --no-source --coalesce tid,iaddr") cat ` + testdata + `/c2c.txt ;;
*) echo "perf: unexpected: $*" >&2; exit 129 ;;
esac
`)
	threads, err := p.Stat(t.Context(), []int{12, 34}, 250*time.Millisecond, dir)
	require.NoError(t, err)
	require.Len(t, threads, 4)
	require.NoError(t, p.Record(t.Context(), []int{12, 34}, 250*time.Millisecond, dir))
	s, err := p.Report(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, s.Lines, 7)
	keep := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, new(Profile).Keep(dir, keep))
	for _, name := range []string{StatFile, RecordFile, ReportFile, ProfileFile} {
		require.FileExists(t, filepath.Join(keep, name))
	}
	require.NoError(t, new(Profile).Keep(t.TempDir(), keep), "perf failed")

	script("echo >&2; echo Error: >&2; echo 'failed: memory events not supported' >&2; exit 255\n")
	require.EqualError(t, p.Record(t.Context(), []int{1}, time.Second, dir),
		"perf c2c record: failed: memory events not supported (exit status 255)")
}
