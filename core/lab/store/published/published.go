package published

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/lab/store/jsondoc"
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
	Percentiles *Percentiles `json:"percentiles,omitempty"`
	Rows        []Row        `json:"rows"`
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
	Work    []Work    `json:"work,omitempty"`
	Loops   []Loop    `json:"loops,omitempty"`
	Sums    []Sum     `json:"sums,omitempty"`
	Limits  []Limit   `json:"limits,omitempty"`
	Ratios  []Ratio   `json:"ratios,omitempty"`
	Timed   []Timed   `json:"timed,omitempty"`
	Lookups []Lookups `json:"lookups,omitempty"`
	// SingleRun is set if there was one repeat: the spread of the figures is unknown.
	SingleRun bool `json:"single_run"`
	// Contradiction names the figures of the row that contradict each other.
	Contradiction string `json:"contradiction,omitempty"`

	document *Document
}

// Document returns the document that has the row.
func (r *Row) Document() *Document { return r.document }

// Figure is a number with its unit.
type Figure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Parse reads a document of the kind [Kind]. Package consistency judges its figures.
func Parse(document *jsondoc.Document) (*Document, error) {
	d := new(Document)
	if err := document.Decode(d); err != nil {
		return nil, err
	}
	switch major, _, _ := strings.Cut(d.SchemaVersion, "."); {
	case d.Kind != Kind:
		return nil, fmt.Errorf("kind %q is not %q", d.Kind, Kind)
	case major != "1":
		return nil,
			fmt.Errorf(
				"%w: its schema is %q, and this transportbench reads published figures of 1.x",
				result.ErrNewer, d.SchemaVersion)
	case d.Source == "":
		return nil, errors.New("source is missing")
	case len(d.Rows) == 0:
		return nil, errors.New("rows is empty")
	}
	for i := range d.Rows {
		d.Rows[i].document = d
		if err := d.Rows[i].check(); err != nil {
			return nil, fmt.Errorf("rows[%d] %q: %w", i, d.Rows[i].Name, err)
		}
	}
	return d, nil
}

// check returns an error if a row is incomplete.
func (r *Row) check() error {
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
			return fmt.Errorf("metric %s is in %s, but our %s is in %s", name, figure.Unit, name,
				known.Unit)
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
	return nil
}
