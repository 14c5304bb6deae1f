package export

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/base/grouped"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/result"
)

// OtavaTest is the series of one cell, which Apache Otava calls a test.
type OtavaTest struct {
	Name   string
	ID     string // tells tests apart in names of files
	series []history.Series
}

// OtavaTests groups series by cell and machine, without what transports share: Otava has the values
// as measured.
func OtavaTests(list []history.Series) []OtavaTest {
	list = slices.DeleteFunc(slices.Clone(list),
		func(s history.Series) bool { return s.Transport == history.Shared })
	var tests []OtavaTest
	for _, series := range grouped.By(list,
		func(s history.Series) [2]string { return [2]string{s.Cell, s.Machine} }) {
		first := series[0]
		name := strings.TrimSpace(first.Transport + " " + first.Load + " " + first.Machine)
		tests = append(tests, OtavaTest{name, fmt.Sprintf("%04d", len(tests)), series})
	}
	return tests
}

// WriteOtava writes a test as Otava's data source "csv" reads it: a line for each set with its
// time, the commit, the version, and the metrics.
func WriteOtava(w io.Writer, h *history.History, t OtavaTest) error {
	header := []string{"time", "commit", "version", "set"}
	for _, s := range t.series {
		header = append(header, s.Metric)
	}
	out := doc.NewCSVWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for i, set := range h.Sets {
		row := []string{set.StartedAt.UTC().Format(time.RFC3339), set.Revision, set.Version,
			set.Label}
		measured := false
		for _, s := range t.series {
			value := ""
			if at := slices.IndexFunc(s.Points,
				func(p history.Point) bool { return p.Set == i }); at >= 0 {
				value, measured = strconv.FormatFloat(s.Points[at].Value, 'g', -1, 64), true
			}
			row = append(row, value)
		}
		if measured {
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// WriteOtavaTests writes the part of Otava's configuration that describes the tests; file returns
// the path of a test's values.
func WriteOtavaTests(w io.Writer, tests []OtavaTest, file func(OtavaTest) string) error {
	if _, err := fmt.Fprintln(w, "tests:"); err != nil {
		return err
	}
	for _, t := range tests {
		if _, err := fmt.Fprintf(w, "  %q:\n    type: csv\n    file: %q\n    time_column: time\n "+
			"   attributes: [commit, version, set]\n    metrics:\n", t.Name, file(t)); err != nil {
			return err
		}
		for _, s := range t.series {
			direction := 1
			if s.Better == result.Lower {
				direction = -1
			}
			if _, err := fmt.Fprintf(w, "      %s:\n        column: %s\n        direction: %d\n",
				s.Metric, s.Metric, direction); err != nil {
				return err
			}
		}
	}
	return nil
}
