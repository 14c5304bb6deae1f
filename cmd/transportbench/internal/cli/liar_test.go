package cli_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// A plugin that reports what cannot be ends the run with 4 and one line that names the rank, the
// field, the value and its bounds.
func TestLyingPlugin(t *testing.T) {
	c := &clitest.Command{T: t, Run: runner.Run, Plugins: []string{"liar"}}
	code := c.Execute("run", "--transport", "liar", "--repeats", "1", "--warmup", "0",
		"--duration", "1ms")
	require.Equal(t, app.ExitThreshold, code, c.Stderr)
	lines := strings.Split(strings.TrimSpace(c.Stderr), "\n")
	last := lines[len(lines)-1]
	require.Regexp(t,
		`^transportbench: rank 1: run: report\.clients\[0\]\.elapsed_ns: 0 is impossible \(at least 1\): the plugin is faulty$`, last)
	require.Equal(t, 1, strings.Count(c.Stderr, "impossible"), c.Stderr)

	c = &clitest.Command{T: t, Run: runner.Run, Plugins: []string{"liar"}}
	code = c.Sweep("--transport", "liar", "--repeats", "1", "--warmup", "0", "--duration", "1ms")
	require.Equal(t, app.ExitThreshold, code, c.Stderr)
	require.Contains(t, c.Stderr, "1 of 1 cells failed; --resume retries them")
}

// JSON has no NaN, so a plugin that computes one cannot send it. That is a lie, too.
func TestPluginThatComputesNaN(t *testing.T) {
	c := &clitest.Command{T: t, Run: runner.Run, Plugins: []string{"liarnan"}}
	code := c.Execute("run", "--transport", "liarnan", "--repeats", "1", "--warmup", "0",
		"--duration", "1ms")
	require.Equal(t, app.ExitThreshold, code, c.Stderr)
	require.Regexp(t,
		`(?m)^transportbench: rank 1: run: its answer: NaN is impossible \(a finite number\): the plugin is faulty$`, c.Stderr)
	require.Equal(t, app.ExitThreshold, c.Execute("micro", "--plugin-dir",
		clitest.PluginDir(t, "liarnan"), "liarnan", "read"), c.Stderr)
	require.Regexp(t,
		`(?m)^transportbench: plugin liarnan: its answer: NaN is impossible \(a finite number\): the plugin is faulty$`, c.Stderr)
	require.Contains(t, c.Stderr, "1 repeat of each measurement, at least ")
}

// serveLiar serves the plugin of that name.
func serveLiar(name string) {
	plugin.Serve(&lyingDriver{clitest.Driver{Described: transport.Info{Name: name, Version: "1"}}},
		newLiar)
}

// lyingDriver has a microbenchmark that measures nothing.
type lyingDriver struct{ clitest.Driver }

func (*lyingDriver) Microbenchmarks() []string { return []string{"read"} }

func (*lyingDriver) Microbenchmark(_ context.Context, _ transport.Values, _ func(string) bool,
	_ time.Duration, report func(transport.Measurement) error) error {
	return report(transport.Measurement{Name: "read", Latency: math.NaN(), Samples: 1})
}

// liar is a rank whose clients claim that their window took no time, or a mean time that is not a
// number.
type liar struct {
	plan    record.Plan
	nan     bool
	stopped chan struct{}
}

func newLiar(d transport.Driver) record.Control {
	return &liar{nan: d.Info().Name == "liarnan", stopped: make(chan struct{}, 1)}
}

func (l *liar) Prepare(_ context.Context, plan record.Plan) (record.Prepared, error) {
	l.plan = plan
	p := record.Prepared{
		Workers:    record.RankWorkers{Rank: plan.Rank},
		Properties: transport.Properties{Provider: "memory"}, PID: os.Getpid(),
	}
	daemons, clients := plan.Config.Threads(plan.Rank)
	for range daemons {
		p.Workers.Daemons = append(p.Workers.Daemons, []byte{1})
	}
	for range clients {
		p.Workers.Clients = append(p.Workers.Clients, []byte{2})
	}
	for range plan.CPUs {
		p.CPUs = append(p.CPUs, "0")
	}
	return p, nil
}

func (*liar) Connect(context.Context, []record.RankWorkers) error { return nil }

func (*liar) Overhead(context.Context, time.Duration) (record.Overhead, error) {
	return record.Overhead{}, nil
}

func (*liar) Probe(context.Context, record.Probe) (transport.Floor, error) {
	return transport.Floor{}, transport.ErrUnsupported
}

func (l *liar) Run(ctx context.Context, w record.Window, started func(),
	progress func(record.Progress)) (record.Report, error) {
	started()
	r := record.Report{Rank: l.plan.Rank, SampleEvery: w.SampleEvery,
		Process: record.ProcessReport{Clock: "monotonic"}}
	if l.plan.Config.Calls(l.plan.Rank) {
		progress(record.Progress{Drained: true})
		r.Clients = []record.ClientReport{{Latency: record.NewHistogram().Encode()}}
		if l.nan {
			r.Clients[0].MeanNS = math.NaN()
		}
		return r, nil
	}
	select {
	case <-l.stopped:
	case <-ctx.Done():
	}
	r.Daemons = []record.DaemonReport{{ElapsedNS: uint64(w.Duration)}}
	return r, nil
}

func (l *liar) Advance(_ context.Context, to record.State) error {
	if to == record.StateStopped {
		select {
		case l.stopped <- struct{}{}:
		default:
		}
	}
	return nil
}

func (*liar) Close(context.Context) error { return nil }
