package listing

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// TestPluginOptionsFit checks that options fit into 100 columns and are complete.
func TestPluginOptionsFit(t *testing.T) {
	help := "a long explanation of what this option does, which values it takes and when to use " +
		"which of them, in many words"
	var out bytes.Buffer
	write(&out,
		PluginDetails(Plugin{Name: "fake",
			Description: &plugin.Description{
				Info: transport.Info{Name: "fake",
					Capabilities: transport.Capabilities{Traces: true},
					Matched:      map[string]string{"checksum": "header"},
					Options: []transport.Option{
						{Name: "congestion-control", Type: transport.TypeDuration,
							Default: "a default of several words", Help: help,
							Allowed: []string{"a default of several words", "none", "fresh-streams",
								"no-window",
								"early-consume", "one-tag"}},
					}}}}))
	_, options, found := strings.Cut(out.String(), "for --set key=value:\n")
	require.True(t, found)
	require.Contains(t, out.String(), "With --track matched: checksum=header\n")
	require.Contains(t, out.String(), "traces")
	require.NotContains(t, out.String(), "omitempty")
	words := options
	for _, line := range strings.Split(options, "\n") {
		require.LessOrEqual(t, len(line), 100, "%q", line)
	}
	for _, word := range strings.Fields(help + " early-consume, several") {
		require.Contains(t, words, word)
	}
}

// write writes a document for a plain stream.
func write(w io.Writer, d *doc.Doc) { _ = doc.WriteText(w, d, doc.Screen{}) }

// Labels do not name the load that all cells have in common; a line does.
func TestPlanShowsCommonLoad(t *testing.T) {
	plan := func(inFlight int) string {
		cells := make([]experiment.Cell, 2)
		for i := range cells {
			c := config.Default()
			c.Transport, c.InFlight = []string{"shm", "grpc"}[i], []int{16, inFlight}[i]
			require.NoError(t, c.ValueSize.Set("4KiB"))
			cells[i].Config = c
		}
		reference := config.Default()
		reference.Transport, reference.Profile = set.ReferenceTransport, config.ProfileReference
		cells = append(cells, experiment.Cell{Config: reference})
		var out bytes.Buffer
		write(&out, Plan(&experiment.Plan{Repeats: 10, Cells: cells}, runner.Beside{}))
		return out.String()
	}
	require.Contains(t, plan(16), "\nall cells: in_flight=16, value_size=4KiB\n3 cells, ")
	require.Contains(t, plan(8), "\nall cells: value_size=4KiB\n")
}

// The expected time of a sweep is a range if top-ups may follow its rounds.
func TestPlanSummary(t *testing.T) {
	p := &experiment.Plan{Repeats: 10, Order: experiment.Interleaved,
		Cells: []experiment.Cell{{Config: config.Default()}}}
	expected := p.Expected(runner.Beside{})
	require.Equal(t, "1 cell, 10 repeats each (interleaved), about "+format.Left(expected)+" to "+
		format.Left(expected*115/100), PlanSummary(p, runner.Beside{}))
	p.Order = experiment.Sequential
	require.Equal(t, "1 cell, 10 repeats each (sequential), about "+format.Left(expected),
		PlanSummary(p, runner.Beside{}))
}
