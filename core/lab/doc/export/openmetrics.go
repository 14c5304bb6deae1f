package export

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// baseUnit returns the OpenMetrics base unit for a unit, and the factor that converts values to it.
func baseUnit(unit string) (name string, factor float64) {
	switch unit {
	case "ns":
		return "seconds", 1e-9
	case "ns/op":
		return "seconds_per_operation", 1e-9
	case "op/s":
		return "operations_per_second", 1
	case "B/s":
		return "bytes_per_second", 1
	case "ratio":
		return "ratio", 1
	}
	return "", 1
}

// OpenMetrics writes one family of gauges per metric, with the median of each cell, and the 95%
// interval as stat="low" and stat="high". transportbench_cell_info has the status of every cell; no
// type of prometheus' expfmt can express it.
func OpenMetrics(w io.Writer, s *set.Set) error {
	varying := set.Varying(s.Cells)
	b := bufio.NewWriter(w)
	for _, metric := range set.Metrics(s.Cells) {
		d := result.Define(metric)
		unit, factor := baseUnit(d.Unit)
		family := "transportbench_" + labelName(metric)
		if unit != "" && !strings.HasSuffix(family, "_"+unit) {
			family += "_" + unit
		}
		fmt.Fprintf(b, "# TYPE %s gauge\n", family)
		if unit != "" {
			fmt.Fprintf(b, "# UNIT %s %s\n", family, unit)
		}
		if d.Help != "" {
			fmt.Fprintf(b, "# HELP %s %s\n", family, escaped(d.Help))
		}
		for i := range s.Cells {
			c := &s.Cells[i]
			m, known := c.Metric(metric)
			if !known {
				continue
			}
			labels := labelsOf(c, i, varying)
			fmt.Fprintf(b, "%s{%s,stat=\"median\"} %s\n", family, labels, number(m.Median*factor))
			if m.Low != nil {
				fmt.Fprintf(b, "%s{%s,stat=\"low\"} %s\n", family, labels, number(*m.Low*factor))
				fmt.Fprintf(b, "%s{%s,stat=\"high\"} %s\n", family, labels, number(*m.High*factor))
			}
		}
	}
	fmt.Fprint(b, "# TYPE transportbench_cell info\n# HELP transportbench_cell status of a cell\n")
	for i := range s.Cells {
		c := &s.Cells[i]
		fmt.Fprintf(b, "transportbench_cell_info{%s,status=\"%s\",version=\"%s\"} 1\n",
			labelsOf(c, i, varying), c.Status, escaped(c.Plugin.Version))
	}
	fmt.Fprint(b, "# EOF\n")
	return b.Flush()
}

// labelsOf returns the labels of a cell: transport, provider, the options that vary, and the cell's
// index.
func labelsOf(c *set.Cell, index int, varying []string) string {
	labels := []string{
		fmt.Sprintf(`transport="%s"`, escaped(c.Transport())),
		fmt.Sprintf(`provider="%s"`, escaped(c.Plugin.Provider)),
	}
	used := map[string]bool{"transport": true, "provider": true, "stat": true, "status": true,
		"version": true, "cell": true}
	for _, option := range varying {
		name := labelName(strings.TrimPrefix(option, "options."))
		if used[name] {
			name = "option_" + name
		}
		used[name] = true
		if value, has := c.Config[option]; has {
			labels = append(labels, fmt.Sprintf(`%s="%s"`, name, escaped(value)))
		}
	}
	return strings.Join(append(labels, fmt.Sprintf(`cell="%d"`, index)), ",")
}

func labelName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, text)
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func escaped(text string) string { return escaper.Replace(text) }
