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
"c2c record -- -o ` + dir + `/perf.data ` + pids + `") : >"$5" ;;
"c2c report -i ` + dir + `/perf.data --stdio --full-symbols --no-source --coalesce tid,iaddr") cat ` + testdata + `/c2c.txt ;;
*) echo "perf: unexpected: $*" >&2; exit 129 ;;
esac
`)
	require.NoError(t, p.Record(t.Context(), []int{12, 34}, 250*time.Millisecond, dir))
	s, err := p.Report(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, s.Lines, 7)
	keep := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, new(Profile).Keep(dir, keep))
	for _, name := range []string{RecordFile, ReportFile, ProfileFile} {
		require.FileExists(t, filepath.Join(keep, name))
	}
	require.NoError(t, new(Profile).Keep(t.TempDir(), keep), "perf failed")

	script("echo >&2; echo Error: >&2; echo 'failed: memory events not supported' >&2; exit 255\n")
	require.EqualError(t, p.Record(t.Context(), []int{1}, time.Second, dir),
		"perf c2c record: failed: memory events not supported (exit status 255)")
}
