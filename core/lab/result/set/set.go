package set

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/lab/consistency"
	"transportbench/core/lab/result"
)

// SchemaVersion is the version of the document that this package writes.
const SchemaVersion = "1.0.0"

// Kind is the kind of the document.
const Kind = "set"

// IndexName is the file in a directory that holds its set.
const IndexName = "index.json"

// Set is several runs.
type Set struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^1\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=set"`
	// CreatedAt is in UTC.
	CreatedAt time.Time `json:"created_at"`
	// Environments are the machines that cells refer to.
	Environments []Environment `json:"environments"`
	Cells        []Cell        `json:"cells"`

	// Source is where the set was read from, for messages.
	Source string `json:"-"`
	dir    string // that the cells' files are relative to
}

// Environment is a machine, name to value as text: what must be the same for a
// comparison, and what may explain a difference.
type Environment struct {
	Identity map[string]string `json:"identity"`
	Volatile map[string]string `json:"volatile"`
}

// Cell is one configuration and what was measured under it.
type Cell struct {
	// Config has every option as resolved, as text. Those of the transport
	// itself are "options.NAME".
	Config map[string]string `json:"config"`
	// Status is measured unless the cell has no samples of its own.
	Status Status `json:"status" jsonschema:"enum=measured,enum=failed,enum=unavailable,enum=published"`
	// Reason says why there are no samples, or where published ones are from.
	Reason string `json:"reason,omitempty"`
	Plugin Plugin `json:"plugin"`
	// Environment is an index into the set's; -1 where nothing is known.
	Environment int       `json:"environment"`
	StartedAt   time.Time `json:"started_at"`
	// Samples has each metric's values, one for each repeat that has it.
	Samples map[string][]float64 `json:"samples"`
	// Warnings are the checks that failed.
	Warnings []Warning `json:"doubts,omitempty"`
	// Incomplete says that repeats are missing.
	Incomplete bool `json:"incomplete,omitempty"`
	// Files are the results that the cell comes from, relative to the set's
	// directory.
	Files []File `json:"files,omitempty"`
	// Results are the results themselves, in a set that is a single file.
	Results []*result.Result `json:"results,omitempty"`
}

// Status is how a cell came out.
type Status string

// The statuses. An unavailable transport cannot run on the machine, which is
// no failure.
const (
	Measured    Status = "measured"
	Failed      Status = "failed"
	Unavailable Status = "unavailable"
	Published   Status = "published"
)

// Plugin is what carried a cell's bytes.
type Plugin struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	SHA256        string `json:"sha256,omitempty"`
	RuntimeDigest string `json:"runtime_digest,omitempty"`
	Provider      string `json:"provider,omitempty"`
}

// Warning is a failed check.
type Warning struct {
	Check    string          `json:"check"`
	Severity result.Severity `json:"severity" jsonschema:"enum=info,enum=warning,enum=error"`
	Message  string          `json:"message"`
}

// File is a result's file and its length, by which a change is noticed.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// New returns an empty set.
func New() *Set {
	return &Set{SchemaVersion: SchemaVersion, Kind: Kind, CreatedAt: time.Now().UTC(),
		Environments: []Environment{}, Cells: []Cell{}}
}

// notMeasured are the options that do not concern what is measured: names for
// others, how often it is measured, and which random numbers are drawn.
var notMeasured = []string{"profile", "seed", "repeats", "warmup", "sample_every"}

// Key identifies a configuration: two cells of one key measure the same. drop
// are further options to leave out.
func (c *Cell) Key(drop ...string) string { return Key(c.Config, drop...) }

// Key is [Cell.Key] of a configuration.
func Key(config map[string]string, drop ...string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if slices.Contains(notMeasured, name) || slices.Contains(drop, name) {
			continue
		}
		fmt.Fprintf(&b, "%s=%s\n", name, config[name])
	}
	return b.String()
}

// ID is a short name for a key.
func ID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// Concerns says whether an option is part of a key.
func Concerns(option string) bool { return !slices.Contains(notMeasured, option) }

// Transport is the name of the cell's transport.
func (c *Cell) Transport() string { return c.Config["transport"] }

// Add puts a result into the set as a cell of its own.
func (s *Set) Add(r *result.Result, files ...File) error {
	cell, err := s.NewCell(r, files...)
	if err == nil {
		s.Cells = append(s.Cells, cell)
	}
	return err
}

// Merge adds the repeats of another cell of the same configuration.
func (c *Cell) Merge(more Cell) {
	for name, values := range more.Samples {
		c.Samples[name] = append(c.Samples[name], values...)
	}
	c.Warnings = append(c.Warnings, more.Warnings...)
	c.Incomplete = c.Incomplete || more.Incomplete
	c.Files = append(c.Files, more.Files...)
	c.Results = append(c.Results, more.Results...)
	if more.StartedAt.Before(c.StartedAt) {
		c.StartedAt = more.StartedAt
	}
}

// NewCell takes from a result what a comparison needs. The cell is not in the
// set yet; its machine is.
func (s *Set) NewCell(r *result.Result, files ...File) (Cell, error) {
	config, err := Flatten(r.Config)
	if err != nil {
		return Cell{}, err
	}
	machine, err := environmentOf(r.Environment)
	if err != nil {
		return Cell{}, err
	}
	c := Cell{
		Config: config, Status: Measured, StartedAt: r.StartedAt, Files: files,
		Plugin: Plugin{
			Name: r.Plugin.Name, Version: r.Plugin.Version, SHA256: r.Plugin.SHA256,
			RuntimeDigest: r.Plugin.RuntimeDigest, Provider: r.Plugin.Provider,
		},
		Environment: s.environment(machine),
		Samples:     map[string][]float64{},
		Incomplete:  r.Incomplete,
	}
	for _, repeat := range r.Repeats {
		for name, value := range repeat.Samples {
			c.Samples[name] = append(c.Samples[name], value)
		}
	}
	for name, metric := range r.Summary { // those that are measured once a run
		if _, sampled := c.Samples[name]; !sampled && metric.N == 1 {
			c.Samples[name] = []float64{metric.Median}
		}
	}
	for _, check := range r.Checks {
		if !check.OK {
			c.Warnings = append(c.Warnings, Warning{check.Name, check.Severity, check.Message})
		}
	}
	c.addWarnings(consistency.OfText(c.Config, c.Samples))
	return c, nil
}

// addWarnings adds what was found when the cell was read, but for what a check had
// found when it was written.
func (c *Cell) addWarnings(found []result.Check) {
	known := slices.Clone(c.Warnings)
	for _, check := range found {
		if !slices.ContainsFunc(known, func(d Warning) bool { return d.Check == check.Name }) {
			c.Warnings = append(c.Warnings, Warning{check.Name, check.Severity, check.Message})
		}
	}
}

// momentary are the volatile values that differ whenever one looks.
var momentary = []string{"load_average", "available_memory_bytes"}

func environmentOf(e machine.Environment) (machine Environment, err error) {
	if machine.Identity, err = Flatten(e.Identity); err != nil {
		return machine, err
	}
	if machine.Volatile, err = Flatten(e.Volatile); err != nil {
		return machine, err
	}
	for _, name := range momentary {
		delete(machine.Volatile, name)
	}
	return machine, nil
}

// environment returns the index of a machine, which it adds where it is new.
func (s *Set) environment(machine Environment) int {
	for i, known := range s.Environments {
		if maps.Equal(known.Identity, machine.Identity) && maps.Equal(known.Volatile, machine.Volatile) {
			return i
		}
	}
	s.Environments = append(s.Environments, machine)
	return len(s.Environments) - 1
}

// Machine is what a cell was measured on; it is empty where that is unknown.
func (s *Set) Machine(c *Cell) Environment {
	if c.Environment < 0 || c.Environment >= len(s.Environments) {
		return Environment{}
	}
	return s.Environments[c.Environment]
}

// Sort orders the cells by transport and configuration, numbers as such.
func (s *Set) Sort() {
	slices.SortStableFunc(s.Cells, func(a, b Cell) int { return CompareConfigs(a.Config, b.Config) })
}

// CompareConfigs orders configurations by transport, then option by option.
func CompareConfigs(a, b map[string]string) int {
	if c := cmp.Compare(a["transport"], b["transport"]); c != 0 {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if c := CompareValues(a[name], b[name]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Flatten turns a struct into its JSON names and values as text, with a dot
// between an outer name and an inner one. What is empty is left out, lists are
// JSON.
func Flatten(v any) (map[string]string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var document map[string]json.RawMessage
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	flat := map[string]string{}
	flatten(flat, "", document)
	return flat, nil
}

func flatten(into map[string]string, prefix string, document map[string]json.RawMessage) {
	for name, value := range document {
		var (
			inner map[string]json.RawMessage
			text  string
		)
		switch {
		case string(value) == "null":
		case value[0] == '{':
			if json.Unmarshal(value, &inner) == nil {
				flatten(into, prefix+name+".", inner)
			}
		case value[0] == '"':
			if json.Unmarshal(value, &text) == nil {
				into[prefix+name] = text
			}
		default:
			into[prefix+name] = string(value)
		}
	}
}
