package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// curved matches a block of a document that shows how the cost of an operation grows along the axes
// of a committed set.
var curved = regexp.MustCompile(`(?s)<!-- curves: (results/\S+) -->\n.*?<!-- end of curves -->`)

// TestPublishedCurves compares the documents with the committed sets of curves. With -update it
// rewrites them.
func TestPublishedCurves(t *testing.T) {
	compareBlocks(t, curved, func(root string, block [][]byte) []byte {
		s, err := set.Load(filepath.Join(root, string(block[1])))
		require.NoError(t, err)
		return renderCurves(t, s)
	})
}

// axis is one of the axes of results/curves.yaml.
type axis struct {
	title string
	// value is the value on the axis, or -1 for a cell of another axis.
	value func(config map[string]string) int64
	show  func(int64) string
}

var axes = []axis{
	{"clients of one daemon", func(c map[string]string) int64 {
		if c["value_size"] != "32" || c["topology"] != "client-server" {
			return -1
		}
		n, _ := strconv.ParseInt(c["clients"], 10, 64)
		return n
	}, func(n int64) string { return strconv.FormatInt(n, 10) }},
	{"ranks of a mesh, all to all", func(c map[string]string) int64 {
		if c["topology"] != "mesh-direct" {
			return -1
		}
		n, _ := strconv.ParseInt(c["ranks"], 10, 64)
		return n
	}, func(n int64) string { return strconv.FormatInt(n, 10) }},
	{"payload", func(c map[string]string) int64 {
		if c["clients"] != "1" || c["topology"] != "client-server" {
			return -1
		}
		n, err := transport.ParseSize(c["value_size"])
		if err != nil {
			return -1
		}
		return n
	}, transport.FormatSize},
}

// renderCurves writes a table of times per operation for each axis, a column for each transport.
func renderCurves(t *testing.T, s *set.Set) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, "```text")
	var transports []string
	for i := range s.Cells {
		if name := s.Cells[i].Transport(); !slices.Contains(transports, name) {
			transports = append(transports, name)
		}
	}
	for i, a := range axes {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		cells := map[int64]map[string]*set.Cell{}
		var values []int64
		for k := range s.Cells {
			c := &s.Cells[k]
			value := a.value(c.Config)
			if value < 0 || c.Status != set.Measured {
				continue
			}
			if cells[value] == nil {
				cells[value] = map[string]*set.Cell{}
				values = append(values, value)
			}
			cells[value][c.Transport()] = c
		}
		require.NotEmpty(t, values, a.title)
		slices.SortFunc(values, cmp.Compare[int64])
		header := []string{">" + a.title}
		for _, name := range transports {
			header = append(header, ">"+name)
		}
		grid := doc.NewTable(header...)
		for _, value := range values {
			row := []any{a.show(value)}
			for _, name := range transports {
				text := "-"
				if c := cells[value][name]; c != nil {
					if m, known := c.Metric(result.Throughput); known && m.Median > 0 {
						text = strings.TrimSpace(format.Time(1e9 / m.Median))
					}
				}
				row = append(row, text)
			}
			grid.Row(row...)
		}
		write(&b, &doc.Doc{Blocks: []doc.Block{grid}})
	}
	fmt.Fprintln(&b, "```")
	return b.Bytes()
}
