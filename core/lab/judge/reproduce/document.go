package reproduce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/published"
)

// Document describes how the figures of a document are measured again, and its tables.
type Document struct {
	Name string
	// Source is the published file's name, without its extension.
	Source string
	// Sweep is set if there are a sweep NAME and a sweep NAME-full.
	Sweep bool
	// Micro are microbenchmarks, in the order in which they are measured.
	Micro  []Micro
	Tables []Table
	// Objectives are the rows of a table with the largest load that meets each, such as
	// "read_p50<25ms".
	Objectives []string
	// Rate is the metric that the objectives maximize.
	Rate string
	// Notes say how our conditions differ from those of the document.
	Notes []string
	// Absent are the parts of the document that nothing here measures, and why.
	Absent []string

	Published *published.Document `mapstructure:"-"`
	text      []byte              // of Published
}

// Micro is one call of the microbenchmarks of a transport.
type Micro struct {
	Transport string
	Names     []string
	// Duration is that of a reading, such as "20ms", and Full the same with --full.
	Duration, Full string
	Options        map[string]string // of the transport
	// Counters is set if the readings have hardware counters, on a machine that counts.
	Counters bool
}

// Table is a table of the document.
type Table struct {
	Title string
	// Row is the header of the names of the rows.
	Row     string
	Columns []Column
	Rows    []Row
	// Along is the column that the report draws the others over.
	Along string
	// NoFloor is set if the figures have no ratio to a floor.
	NoFloor bool
	// Notes stand below the table.
	Notes []string
}

// Column is a figure of each row. Ours and Theirs are metrics; of several the first that a row has
// counts. Without Theirs it is that of the same name.
type Column struct {
	Name         string
	Ours, Theirs []string
}

// Row corresponds to a row of the document.
type Row struct {
	Name string
	// Ours selects our cell as [set.Match] does; of several patterns the first that a cell matches
	// counts. It is empty if nothing here measures the row.
	Ours []string
	// Theirs is the name of the published row, or of the two ends of a range.
	Theirs []string
	// Floor is the name of the published row that has the floor. OwnFloor selects the cell that has
	// ours, if our cell does not have its own.
	Floor    string
	OwnFloor []string `mapstructure:"own_floor"`
	// Over and Under are the names of rows of the same table: the row has the ratios of their
	// figures, or their differences if Less is set.
	Over, Under string
	Less        bool
	// Times multiplies the times of ours: 2 if they are half of a round trip, and the document's a
	// whole one.
	Times float64
	// Rank is the rank whose loops the columns have.
	Rank int
	// Needs is hardware that the row needs. It is missing if the provider of our cell is not
	// Provider.
	Needs, Provider string
	// Note says what is wrong with the published figures, or differs in ours.
	Note string
}

// tables is the directory of the descriptions.
const tables = "reproduce/tables"

// Names returns the names of the documents that a file system has.
func Names(files fs.FS) (names []string) {
	entries, _ := fs.ReadDir(files, tables) // an embedded directory can be read
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// ErrUnknown is wrapped by the error for a name that no document has.
var ErrUnknown = errors.New("there is no such document")

// Load reads a document.
func Load(files fs.FS, name string) (*Document, error) {
	if names := Names(files); !slices.Contains(names, name) {
		return nil, fmt.Errorf("%q: %w%s; there are %s", name, ErrUnknown, suggest.For(name, names),
			strings.Join(names, ", "))
	}
	text, err := fs.ReadFile(files, path.Join(tables, name+".yaml"))
	if err != nil {
		return nil, err
	}
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &Document{Name: name}
	// Without viper's hook, which would divide names at their commas.
	if err := v.UnmarshalExact(d, viper.DecodeHook(nil)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.text, err = fs.ReadFile(files, path.Join("published", d.Source+".json")); err != nil {
		return nil, err
	}
	parsed, err := jsondoc.New(d.text)
	if err != nil {
		return nil, err
	}
	if d.Published, err = published.Parse(parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Source, err)
	}
	return d, d.check()
}

// WritePublished writes the published figures.
func (d *Document) WritePublished(w io.Writer) error {
	_, err := w.Write(d.text)
	return err
}

// check returns an error for names that nothing has.
func (d *Document) check() error {
	for _, t := range d.Tables {
		for _, r := range t.Rows {
			for _, name := range append(slices.Clone(r.Theirs), r.Floor) {
				if name != "" && d.rowIndex(name) < 0 {
					return fmt.Errorf("%s: %s: %s has no row %q", t.Title, r.Name, d.Source, name)
				}
			}
			for _, name := range []string{r.Over, r.Under} {
				if name != "" && t.row(name) == nil {
					return fmt.Errorf("%s: %s: the table has no row %q", t.Title, r.Name, name)
				}
			}
		}
	}
	return nil
}

// rowIndex returns the index of the published row of a name, or -1.
func (d *Document) rowIndex(name string) int {
	return slices.IndexFunc(d.Published.Rows, func(r published.Row) bool { return r.Name == name })
}

// row returns the published row of a name, which check has found.
func (d *Document) row(name string) *published.Row { return &d.Published.Rows[d.rowIndex(name)] }

func (t *Table) row(name string) *Row {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Rows[i]
}
