package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The heat map's shares are relative to the best of each column.
func TestHeatMap(t *testing.T) {
	s := set.New()
	for _, c := range []struct {
		transport, size string
		rate            float64
	}{{"a", "32", 100}, {"b", "32", 50}, {"a", "4096", 10}, {"b", "4096", 40}} {
		s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": c.transport,
			"value_size": c.size, "duration": "1s"}, Status: set.Measured,
			Environment: -1, Samples: map[string][]float64{result.Throughput: {c.rate}}})
	}
	s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": "c",
		"value_size": "32", "duration": "1s"}, Status: set.Failed, Reason: "it crashed",
		Environment: -1, Samples: map[string][]float64{}})
	p := build(t, s)
	require.Len(t, p.heat, 1)
	m := p.heat[0]
	require.Equal(t, [][]string{{"32"}, {"4KiB"}}, m.Columns)
	var shares [][]string
	for _, row := range m.Rows {
		var list []string
		for _, c := range row.Cells {
			if c.Cell >= 0 {
				list = append(list, row.Label+" "+c.Share)
			}
		}
		shares = append(shares, list)
	}
	require.Equal(t, [][]string{{"a 100%", "a 25.0%"}, {"b 50.0%", "b 100%"}, {"c -"}}, shares)
	require.Equal(t, 6, m.Rows[0].Cells[0].Level)
	require.Equal(t, 2, m.Rows[0].Cells[1].Level)
	require.Equal(t, "failed", m.Rows[2].Cells[0].Text)
	require.Contains(t, string(rendered(t, p)), "Transports by payload")
}

// If the payload does not vary, the columns are loads and labelled as such.
func TestHeatMapByLoad(t *testing.T) {
	p := build(t, fakeSet(t, []load{{"shm", "client-server", 1, 32, 0},
		{"shm", "client-server", 4, 32, 0}, {"shm", "mesh-proxied", 4, 32, 0}}, 3, 1))
	require.Len(t, p.heat, 1)
	require.Contains(t, p.heat[0].Columns, []string{"topology=client-server", "in_flight=4"})
	page := string(rendered(t, p))
	require.Contains(t, page, "Transports by load")
	require.NotContains(t, page, "y payload<")
}

// A transport's own options are in labels only if they vary within that transport.
func TestOwnOptionsNameTheirTransportAlone(t *testing.T) {
	s := set.New()
	for _, c := range [][]string{{"shm", "1", "auto"}, {"shm", "1", "lamport"},
		{"shm", "4", "auto"}, {"copyrpc", "1", "0"}, {"copyrpc", "4", "0"}} {
		s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": c[0],
			"in_flight": c[1], "options.ring": c[2], "duration": "1s"}, Status: set.Measured,
			Environment: -1, Samples: map[string][]float64{result.Throughput: {1},
				result.LatencyP99: {1}}})
	}
	p := build(t, s)
	require.Equal(t, []string{"copyrpc in_flight=1", "copyrpc in_flight=4",
		"shm in_flight=1 ring=auto", "shm in_flight=1 ring=lamport", "shm in_flight=4 ring=auto"},
		p.doc.Cells.Label)
	require.Equal(t, axis{"ring", true, []string{"auto", "lamport"}, []string{"auto", "lamport"}},
		p.doc.Axes[1])
	require.Equal(t, []int{-1, -1, 0, 1, 0}, p.doc.Cells.Axes[1])
	var rows, curves []string
	for _, row := range p.heat[0].Rows {
		rows = append(rows, row.Label)
	}
	for _, c := range p.doc.Curves {
		curves = append(curves, c.Label)
	}
	require.Equal(t, []string{"copyrpc", "shm ring=auto", "shm ring=lamport"}, rows)
	require.ElementsMatch(t, rows, curves)

	b := newTab(t)
	b.open(rendered(t, p))
	require.Equal(t, "in_flight=1: 3, in_flight=4: 2",
		eval[string](b,
			`[...groups()].map(([name, cells]) => name + ": " + cells.length).join(", ")`))
}
