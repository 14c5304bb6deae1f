package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

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

// curves writes a table of times per operation for each axis, a column for each transport.
func (a *answerSet) curves(w *bytes.Buffer) {
	var transports []string
	for i := range a.Cells {
		if name := a.Cells[i].Transport(); !slices.Contains(transports, name) {
			transports = append(transports, name)
		}
	}
	fmt.Fprintln(w, "```text")
	for i, axis := range axes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		cells := map[int64]map[string]*set.Cell{}
		var values []int64
		for k := range a.Cells {
			c := &a.Cells[k]
			value := axis.value(c.Config)
			if value < 0 || c.Status != set.Measured {
				continue
			}
			if cells[value] == nil {
				cells[value] = map[string]*set.Cell{}
				values = append(values, value)
			}
			cells[value][c.Transport()] = c
		}
		slices.SortFunc(values, cmp.Compare[int64])
		headers := []string{">" + axis.title}
		for _, name := range transports {
			headers = append(headers, ">"+name)
		}
		grid := doc.NewTable(headers...)
		for _, value := range values {
			row := []any{axis.show(value)}
			for _, name := range transports {
				text := "-"
				if c := cells[value][name]; c != nil {
					text = strings.TrimSpace(format.Time(1e9 / c.Median(result.Throughput)))
				}
				row = append(row, text)
			}
			grid.Row(row...)
		}
		write(w, &doc.Doc{Blocks: []doc.Block{grid}})
	}
	fmt.Fprintf(w, "```\n\n%s.\n", a.source())
}
