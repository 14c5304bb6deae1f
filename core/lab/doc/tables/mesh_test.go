package tables

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func timing(t *testing.T, values ...uint64) record.TimingReport {
	t.Helper()
	h := record.NewHistogram()
	sum := uint64(0)
	for _, v := range values {
		h.Record(v)
		sum += v
	}
	text := h.Encode()
	return record.TimingReport{Histogram: text, Samples: uint64(len(values)),
		MeanNS: float64(sum) / float64(len(values))}
}

// meshSample returns a result of a mesh with different figures for each rank.
func meshSample(t *testing.T, topology string, ranks int) *result.Result {
	t.Helper()
	r := sample("shm", "kv", 3.1e6)
	c := &r.Config
	c.Topology, c.Ranks, c.Clients, c.InFlight = topology, ranks, 4, 8
	r.Summary[result.LocalMean] = metric(result.LocalMean, 610, 590, 640)
	r.Summary[result.RemoteMean] = metric(result.RemoteMean, 1510, 1490, 1550)
	r.Summary[result.EmptyLoops] = metric(result.EmptyLoops, 0.1012, 0.09, 0.11)
	for i := range ranks {
		n := uint64(1_000_000 + 100_000*i)
		d := record.DaemonReport{
			ElapsedNS: 1e9, Loops: 2 * n, EmptyLoops: n / 5, Requests: n, Flushes: n * 9 / 10,
			BackPressure: n / 1000,
			Phases: map[string]record.TimingReport{
				"poll": timing(t, 40, 50, 60), "serve": timing(t, 80, 90, 1000),
				"flush":                timing(t, 30, 40, 60),
				record.PhaseLoop:       timing(t, 200, 240, 1210),
				record.PhaseTurnaround: timing(t, 190, 200, 1100),
			},
		}
		report := record.Report{Rank: i, Daemons: []record.DaemonReport{d},
			Clients: []record.ClientReport{{}}}
		if c.Proxied() {
			report.Daemons[0].Phases["scan"] = timing(t, 50, 60, 90)
			report.Daemons[0].Proxy = &record.ProxyReport{
				FromClients: n, Local: n / 2, Remote: n / 2, Responses: n / 2, Incoming: n / 2,
				Held: n / 2000,
			}
			remote := timing(t, 1400, 1500, 1630)
			report.Clients[0] = record.ClientReport{Remote: &remote,
				Stages: map[string]record.TimingReport{
					record.StageNames[0]: timing(t, 200, 240),
					record.StageNames[1]: timing(t, 150, 160),
					record.StageNames[2]: timing(t, 800, 840),
					record.StageNames[3]: timing(t, 230, 250),
				}}
		}
		r.Repeats[0].Ranks = append(r.Repeats[0].Ranks, report)
	}
	return r
}

func requireNarrow(t *testing.T, text string) {
	t.Helper()
	_, tables, found := strings.Cut(text, "the daemons' loop\n")
	require.True(t, found)
	tables, _, _ = strings.Cut(tables, " more metric")
	for line := range strings.Lines(tables) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100,
			"%s", line)
	}
}

func TestMeshes(t *testing.T) {
	var out bytes.Buffer
	r := meshSample(t, config.TopologyMeshProxied, 2)
	r.Config.RemoteShare = 0.5
	write(&out, Result(r))
	doctest.Golden(t, "result_proxied.txt", out.String())
	requireNarrow(t, out.String())

	out.Reset()
	r = meshSample(t, config.TopologyMeshDirect, 11)
	r.Config.Rate = 1.5e6
	r.Summary[result.OfferedLoad] = metric(result.OfferedLoad, 1.5e6, 1.49e6, 1.51e6)
	r.Summary[result.ResponseP50] = metric(result.ResponseP50, 1800, 1700, 1900)
	r.Summary[result.ScheduleLagP99] = metric(result.ScheduleLagP99, 900, 800, 1000)
	write(&out, Result(r))
	doctest.Golden(t, "result_direct.txt", out.String())
	requireNarrow(t, out.String())
}

func TestMeshWithoutFigures(t *testing.T) {
	var out bytes.Buffer
	r := meshSample(t, config.TopologyMeshProxied, 2)
	for i := range r.Repeats[0].Ranks { // as if the window ended at once
		report := &r.Repeats[0].Ranks[i]
		report.Daemons = []record.DaemonReport{{Proxy: &record.ProxyReport{}}}
		report.Clients = []record.ClientReport{{}}
	}
	write(&out, Result(r))
	require.NotContains(t, out.String(), "NaN")
	require.NotContains(t, out.String(), "phase of a loop")
	require.NotContains(t, out.String(), "stage of a remote request")
	out.Reset()
	r.Repeats = nil
	write(&out, Result(r))
	require.NotContains(t, out.String(), "events per iteration")
}

func TestTitle(t *testing.T) {
	r := sample("shm", "kv", 1)
	for _, c := range []struct {
		edit func(*config.Config)
		want string
	}{
		{func(*config.Config) {}, ""},
		{func(c *config.Config) { c.Rate = 20_000 }, ", open loop of 20.0 K op/s (poisson)"},
		{func(c *config.Config) { c.Topology = config.TopologyMeshDirect }, ", mesh-direct"},
		{func(c *config.Config) {
			c.Topology, c.RemoteShare, c.Rate, c.Arrival = config.TopologyMeshProxied, 0.25, 1e6,
				config.ArrivalConstant
		}, ", mesh-proxied (25% remote), open loop of 1.00 M op/s (constant)"},
	} {
		r.Config = config.Default()
		c.edit(&r.Config)
		require.Equal(t, "shm 0.1.0 (memfd), profile kv"+c.want, Title(r))
	}
	require.Contains(t, Load(r.Config), "2 ranks, 2 daemons, 2 clients, ")
}

func TestFailedRepeatIsOneLine(t *testing.T) {
	var out bytes.Buffer
	r := sample("shm", "kv", 1)
	r.Incomplete, r.IncompleteReason = true,
		"failed after 1 of 10 repeats: rank 1: run: plugin shm (pid 7) died: signal: killed"
	r.Checks = append(r.Checks, result.Finding{Name: "complete", Severity: result.Error,
		Message: r.IncompleteReason})
	r.FailedRepeat = &result.Repeat{Index: 1,
		Samples: map[string]float64{result.Throughput: 1.25e6}}
	write(&out, checks(r, ""))
	require.Equal(t, "incomplete: "+r.IncompleteReason+
		"; the result has the recorded part of repeat 2, at 1.25 M op/s\n",
		strings.SplitAfter(out.String(), "\n")[0])
	require.Equal(t, 1, strings.Count(out.String(), "signal: killed"))
	all := set.New()
	require.NoError(t, all.Add(r))
	require.Equal(t, "incomplete", CellChecks(&all.Cells[0]).Text)
}
