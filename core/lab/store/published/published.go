package published

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/result"
)

// Kind is the kind of the document.
const Kind = "published"

// SchemaVersion is the version of the document.
const SchemaVersion = "1.2.0"

// Document has the figures of one source.
type Document struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^1\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=published"`
	// Source names the document that has the figures.
	Source string `json:"source"`
	// Date is that of the document or the measurement, absent if unknown.
	Date time.Time `json:"date,omitzero"`
	// Conditions describe machine, software and load as the source does.
	Conditions map[string]string `json:"conditions"`
	// Percentiles describes how the percentiles of the rows were computed, if the source does.
	Percentiles *consistency.Percentiles `json:"percentiles,omitempty"`
	Rows        []Row                    `json:"rows"`
}

// Row is one configuration and its figures.
type Row struct {
	Name string `json:"name"`
	// Config has our options that correspond to the source's configuration, as text. It has at
	// least the transport.
	Config     map[string]string `json:"config"`
	Conditions map[string]string `json:"conditions,omitempty"`
	// Metrics have our names if they have the meaning of our metrics, else other names.
	Metrics map[string]Figure `json:"metrics"`
	// Expected is set if the source expects the figures and did not measure them.
	Expected bool `json:"expected,omitempty"`
	// Work, Loops, Sums, Limits, Ratios, Timed and Lookups are claims of the source whose figures
	// must be consistent: amounts and rates, counters of a loop, wholes and their parts, limits,
	// factors, what is timed, and what lookups find.
	Work    []consistency.Work    `json:"work,omitempty"`
	Loops   []consistency.Loop    `json:"loops,omitempty"`
	Sums    []consistency.Sum     `json:"sums,omitempty"`
	Limits  []consistency.Limit   `json:"limits,omitempty"`
	Ratios  []consistency.Ratio   `json:"ratios,omitempty"`
	Timed   []consistency.Timed   `json:"timed,omitempty"`
	Lookups []consistency.Lookups `json:"lookups,omitempty"`
	// SingleRun is set if there was one repeat: the spread of the figures is unknown.
	SingleRun bool `json:"single_run"`
	// Contradiction names the figures of the row that contradict each other.
	Contradiction string `json:"contradiction,omitempty"`
}

// Figure is a number with its unit.
type Figure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Parse reads a document of the kind [Kind]. It refuses rows with figures that contradict each
// other unless the row says so; see [Row.Check].
func Parse(document *result.Document) (*Document, error) {
	d := new(Document)
	if err := document.Decode(d); err != nil {
		return nil, err
	}
	switch major, _, _ := strings.Cut(d.SchemaVersion, "."); {
	case d.Kind != Kind:
		return nil, fmt.Errorf("kind %q is not %q", d.Kind, Kind)
	case major != "1":
		return nil, fmt.Errorf("%w: its schema is %q, and this transportbench reads published figures of 1.x", result.ErrNewer, d.SchemaVersion)
	case d.Source == "":
		return nil, errors.New("source is missing")
	case len(d.Rows) == 0:
		return nil, errors.New("rows is empty")
	}
	for i := range d.Rows {
		if err := d.Rows[i].Check(); err != nil {
			return nil, fmt.Errorf("rows[%d] %q: %w", i, d.Rows[i].Name, err)
		}
	}
	return d, nil
}

// Check returns an error if a row is incomplete, or if its figures contradict each other and it has
// no Contradiction.
func (r *Row) Check() error {
	if r.Config["transport"] == "" {
		return errors.New("config has no transport")
	}
	if len(r.Metrics) == 0 {
		return errors.New("metrics is empty")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		figure := r.Metrics[name]
		known := result.Define(name)
		switch {
		case !(figure.Value > 0) || math.IsInf(figure.Value, 0):
			return fmt.Errorf("metric %s: %g is not above 0", name, figure.Value)
		case figure.Unit == "":
			return fmt.Errorf("metric %s has no unit", name)
		case known.Unit != "" && known.Unit != figure.Unit:
			return fmt.Errorf("metric %s is in %s, but our %s is in %s", name, figure.Unit, name, known.Unit)
		}
	}
	for _, w := range r.Work {
		if err := w.Valid(); err != nil {
			return err
		}
	}
	for _, l := range r.Lookups {
		if err := l.Valid(); err != nil {
			return err
		}
	}
	if r.Contradiction != "" {
		return nil
	}
	for _, c := range r.Findings() {
		if c.Severity == result.Error {
			return fmt.Errorf("%s; correct it, or say so in the row's contradiction", c.Message)
		}
	}
	return nil
}

// Findings returns the inconsistencies of a row, even if it has a Contradiction.
func (r *Row) Findings() []result.Check {
	f := consistency.Figures{Load: consistency.LoadOfText(r.Config), Values: map[string]float64{}, Printed: true}
	for name, figure := range r.Metrics {
		f.Values[name] = figure.Value
	}
	list := claims(r.Work)
	list = append(list, claims(r.Loops)...)
	list = append(list, claims(r.Sums)...)
	list = append(list, claims(r.Limits)...)
	list = append(list, claims(r.Ratios)...)
	list = append(list, claims(r.Timed)...)
	list = append(list, claims(r.Lookups)...)
	return append(list, consistency.Check(f)...)
}

func claims[T interface{ Check() []result.Check }](of []T) (list []result.Check) {
	for _, claim := range of {
		list = append(list, claim.Check()...)
	}
	return list
}

// Findings returns the problems of the document as a whole.
func (d *Document) Findings() []result.Check {
	var list []result.Check
	if d.Percentiles != nil {
		list = d.Percentiles.Check()
	}
	expected := 0
	for i := range d.Rows {
		if d.Rows[i].Expected {
			expected++
		}
	}
	if expected > 0 {
		list = append(list, result.Check{Name: "expected", Severity: result.Warning, Value: float64(expected), Message: fmt.Sprintf(
			"the authors expect %d of %d rows and measured none of those; a factor between two of them is an expectation too", expected, len(d.Rows))})
	}
	return list
}
