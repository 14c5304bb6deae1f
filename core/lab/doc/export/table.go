package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// CSV writes one line per repeat of each cell, and one for a cell without samples. Its columns are
// the transport and its version and provider, the status and its reason, the profile, the options
// that vary, the repeat, and each metric with its unit. Metrics that are measured once per run are
// in the first repeat's line.
func CSV(w io.Writer, s *set.Set) error {
	varying, metrics := set.Varying(s.Cells), set.Metrics(s.Cells)
	out := doc.NewCSVWriter(w)
	if !slices.Contains(varying, "profile") {
		varying = append([]string{"profile"}, varying...)
	}
	header := []string{"transport", "version", "provider", "status", "reason"}
	for _, name := range varying {
		header = append(header, strings.TrimPrefix(name, "options."))
	}
	header = append(header, "repeat")
	for _, name := range metrics {
		header = append(header, strings.TrimSpace(name+" "+unitWords(name)))
	}
	if err := out.Write(header); err != nil {
		return err
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		for repeat := range max(1, c.Repeats()) {
			row := []string{c.Transport(), c.Plugin.Version, c.Plugin.Provider, string(c.Status),
				c.Reason}
			for _, name := range varying {
				row = append(row, c.Config[name])
			}
			row = append(row, strconv.Itoa(repeat))
			for _, name := range metrics {
				value := ""
				if v, has := c.Sample(name, repeat); has {
					value = number(v)
				}
				row = append(row, value)
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func unitWords(metric string) string {
	if unit := result.Define(metric).Unit; unit != "" && unit != "ratio" {
		return "(" + unit + ")"
	}
	return ""
}

// Benchfmt writes the Go benchmark format with one line per repeat, so that benchstat can compare
// sets. Benchmark names have the transport and the options that vary, units are METRIC-UNIT, and
// configuration lines describe the machine. Cells without samples are comments.
func Benchfmt(w io.Writer, s *set.Set) error {
	varying, metrics := set.Varying(s.Cells), set.Metrics(s.Cells)
	b := bufio.NewWriter(w)
	for _, name := range metrics {
		if better := result.Define(name).Better; better == result.Higher || better == result.Lower {
			fmt.Fprintf(b, "Unit %s better=%s\n", benchUnit(name), better)
		}
	}
	environment := -2
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Environment != environment {
			environment = c.Environment
			identity := s.Machine(c).Identity
			for _, name := range slices.Sorted(maps.Keys(identity)) {
				fmt.Fprintf(b, "%s: %s\n", benchKey(name), printable.Text(identity[name]))
			}
		}
		if len(c.Samples) == 0 {
			fmt.Fprintf(b, "# %s: %s: %s\n", benchName(c, varying), c.Status,
				printable.Text(c.Reason))
			continue
		}
		for repeat := range c.Repeats() {
			fmt.Fprintf(b, "%s 1", benchName(c, varying))
			for _, name := range metrics {
				if v, has := c.Sample(name, repeat); has {
					fmt.Fprintf(b, " %s %s", number(v), benchUnit(name))
				}
			}
			fmt.Fprintln(b)
		}
	}
	return b.Flush()
}

// benchUnit returns a metric's unit, which has the metric's name. benchstat converts ns at its end
// to seconds.
func benchUnit(metric string) string {
	unit := result.Define(metric).Unit
	if unit == "" || unit == "ratio" {
		return word(metric)
	}
	return word(metric) + "-" + unit
}

// benchKey returns a key of a configuration line. It begins with a lower-case letter, unlike the
// line of a result.
func benchKey(name string) string {
	return strings.ToLower(strings.ReplaceAll(word(name), "_", "-"))
}

func benchName(c *set.Cell, varying []string) string {
	name := []rune(word(c.Transport()))
	name[0] = unicode.ToUpper(name[0])
	parts := []string{"Benchmark" + string(name)}
	if c.Plugin.Provider != "" {
		parts = append(parts, "provider="+word(c.Plugin.Provider))
	}
	for _, option := range varying {
		if value, has := c.Config[option]; has {
			parts = append(parts, word(strings.TrimPrefix(option, "options."))+"="+word(value))
		}
	}
	return strings.Join(parts, "/")
}

// word replaces the characters that have a meaning in benchmark names and HDR tags.
func word(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '/' || r == ',' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, text)
	if clean == "" {
		return "_"
	}
	return clean
}
