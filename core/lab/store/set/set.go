package set

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// SchemaVersion is the version of the document that this package writes.
const SchemaVersion = "3.0.0"

// Kind is the kind of the document.
const Kind = "set"

// IndexName is the name of the file that holds a directory's set.
const IndexName = "index.json"

// BlessedName is the name of a file in a set's directory that is no result: the changes that were
// accepted (package history).
const BlessedName = "blessed.json"

// Set is a set of results.
type Set struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^3\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=set"`
	// CreatedAt is in UTC.
	CreatedAt time.Time `json:"created_at"`
	// Environments are the machines that cells refer to.
	Environments []Environment `json:"environments"`
	Cells        []Cell        `json:"cells"`

	// Reference has the cell of the reference, if a sweep has measured one beside its cells
	// ([Set.SetReferenceAside]). A document has it among the others.
	Reference []Cell `json:"-"`
	// Source is the path that the set was read from, for messages.
	Source string `json:"-"`
	// Skipped says which documents of the directory have no results. Calibrations are left out.
	Skipped []string `json:"-"`
	dir     string   // the names of the cells' files are relative to it
}

// Environment is a machine as names and values: Identity must be the same for a comparison, and
// Volatile may explain a difference.
type Environment struct {
	Identity map[string]string `json:"identity"`
	Volatile map[string]string `json:"volatile"`
}

// Cell is one configuration and what was measured with it.
type Cell struct {
	// Run is the configuration of the run. It is nil for published figures and readings of
	// microbenchmarks, which have only some options.
	Run *config.Config `json:"run,omitempty"`
	// Config has every option as text, as [Set.Check] derives it from Run. Options of the transport
	// itself are "options.NAME". A document has it only of cells without Run.
	Config map[string]string `json:"config,omitempty"`
	// Status is measured if the samples were measured here.
	Status Status `json:"status" jsonschema:"enum=measured,enum=failed,enum=unavailable,enum=published"`
	// Reason is why there are no samples, or the source of published ones.
	Reason string `json:"reason,omitempty"`
	// Tool is the version that measured the cell, if known; see [Set.Tools].
	Tool   *result.Tool `json:"tool,omitempty"`
	Plugin Plugin       `json:"plugin"`
	// Layer is [transport.Measurement.Layer] of a microbenchmark's reading.
	Layer string `json:"layer,omitempty"`
	// Environment is an index into the set's environments; -1 if the machine is unknown.
	Environment int       `json:"environment"`
	StartedAt   time.Time `json:"started_at"`
	// Schema is the version of the schema in which the results were written. Some metrics meant
	// something else in 1.x. It is empty for published figures.
	Schema string `json:"schema,omitempty"`
	// ClockStep is the resolution of the clock in nanoseconds, the largest of all ranks; 0 if
	// unknown.
	ClockStep float64 `json:"clock_step_ns,omitempty"`
	// Windows are the measured windows, in the order of the samples. They are absent if unknown.
	Windows []Window `json:"windows,omitempty"`
	// Samples has the values of each metric, one for each repeat that has it.
	Samples map[string][]float64 `json:"samples"`
	// Pooled has the percentiles of an open loop's response times over all windows, by metric. It
	// is absent if the cell was merged of sets that do not have the histograms.
	Pooled map[string]result.Pooled `json:"pooled,omitempty"`
	// Capacity is set if the rate is a share of it. Config has the share then ("70%"), because that
	// is what tells cells apart: another measurement finds another capacity. Run has the rate.
	Capacity *result.Capacity `json:"capacity,omitempty"`
	// Warnings are the checks that failed.
	Warnings []result.Finding `json:"doubts,omitempty"`
	// Incomplete is set if repeats are missing.
	Incomplete bool `json:"incomplete,omitempty"`
	// Files are the results of the cell, relative to the set's directory.
	Files []File `json:"files,omitempty"`
	// Results are the results of the cell, in a set that is a single file.
	Results []*result.Result `json:"results,omitempty"`

	// Row has published figures as their document does, until they are judged.
	Row *published.Row `json:"-"`

	responses []result.Responses // of Pooled; see Set.Responses
}

// Status is the outcome of a cell.
type Status string

// The statuses. An unavailable transport cannot run on the machine, which is not a failure.
const (
	Measured    Status = "measured"
	Failed      Status = "failed"
	Unavailable Status = "unavailable"
	Published   Status = "published"
)

// Tried comes before how often a run was made, and where its log is, in the reason of its failure.
const Tried = "; tried "

// Plugin is the transport's program that a cell was measured with.
type Plugin struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	SHA256        string `json:"sha256,omitempty"`
	RuntimeDigest string `json:"runtime_digest,omitempty"`
	// Sources identifies the sources of the transport itself, as in a result.
	Sources string `json:"sources,omitempty"`
	// Revision is the commit that the plugin was built from, if it is not the tool's.
	Revision string `json:"revision,omitempty"`
	Provider string `json:"provider,omitempty"`
	// Chosen, Integrity, Uncounted and Matched are those of [result.Plugin].
	Chosen    map[string]string `json:"chosen,omitempty"`
	Integrity string            `json:"integrity,omitempty"`
	Uncounted string            `json:"uncounted,omitempty"`
	Matched   map[string]string `json:"matched,omitempty"`
	// Path is [result.Path].
	Path []string `json:"path,omitempty"`
}

// PluginOf returns what a cell keeps of a result's plugin, but for its Path.
func PluginOf(p *result.Plugin) Plugin {
	return Plugin{Name: p.Name, Version: p.Version, SHA256: p.SHA256,
		RuntimeDigest: p.RuntimeDigest, Sources: p.Sources, Revision: p.Revision,
		Provider: p.Provider, Chosen: p.Chosen, Integrity: p.Integrity, Uncounted: p.Uncounted,
		Matched: p.Matched}
}

// File is a result file and its length, which tells whether it has changed.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// path returns where the file of a set in a directory is, also if gzip has compressed it.
func (f File) path(dir string) string { return files.Packed(filepath.Join(dir, f.Name)) }

// New returns an empty set.
func New() *Set {
	return &Set{SchemaVersion: SchemaVersion, Kind: Kind, CreatedAt: time.Now().UTC(),
		Environments: []Environment{}, Cells: []Cell{}}
}

// notMeasured lists the options that are not part of a cell's key, because they do not change what
// is measured.
var notMeasured = []string{"profile", "seed", "repeats", "launches", "warmup", "sample_every"}

// Key returns [Key] of the cell's configuration.
func (c *Cell) Key(drop ...string) string { return Key(c.Config, drop...) }

// Key returns a text that identifies a configuration: cells with the same key measure the same. It
// leaves out the options in drop. It does not depend on names of cells, which a sweep file may
// change, nor on the provider, so that a comparison can name two providers as the difference.
func Key(config map[string]string, drop ...string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if slices.Contains(notMeasured, name) || slices.Contains(drop, name) {
			continue
		}
		b.WriteString(name + "=" + config[name] + "\n")
	}
	return b.String()
}

// ID returns a short name for a key.
func ID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

// Concerns reports whether an option is part of a key.
func Concerns(option string) bool { return !slices.Contains(notMeasured, option) }

// omitted lists the options that a configuration leaves out where they have their default.
var omitted = sync.OnceValue(func() map[string]bool {
	list := map[string]bool{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		list[name] = true
	}
	for name := range defaults() {
		delete(list, name)
	}
	return list
})

// Omitted reports whether an option is left out of configurations in which it has its default, so
// that its absence does not mean that the version did not know it.
func Omitted(option string) bool { return omitted()[option] }

// ReferenceTransport is the transport of the reference.
const ReferenceTransport = "calibration"

// isReference reports whether the cell is the reference of a sweep: a known transport with fixed
// settings, which shows how the machine moves.
func (c *Cell) isReference() bool {
	return c.Transport() == ReferenceTransport &&
		c.Config["profile"] == config.ProfileReference
}

// SetReferenceAside moves the reference from Cells to Reference, so that it is no row of tables and
// wins nothing. A set of nothing else keeps it.
func (s *Set) SetReferenceAside() {
	var cells, reference []Cell
	for _, c := range s.Cells {
		if c.isReference() {
			reference = append(reference, c)
		} else {
			cells = append(cells, c)
		}
	}
	if len(cells) > 0 && len(reference) > 0 {
		s.Cells, s.Reference = cells, append(s.Reference, reference...)
	}
}

// Transport returns the name of the cell's transport.
func (c *Cell) Transport() string { return c.Config["transport"] }

// Add adds a result to the set as a new cell.
func (s *Set) Add(r *result.Result, files ...File) error {
	cell, err := s.NewCell(r, files...)
	if err == nil {
		s.Cells = append(s.Cells, cell)
	}
	return err
}

// OpenLoop reports whether the cell is an open loop with a load, so that it has response times. At
// the rate [config.RateMax], which finds the capacity, they have no meaning.
func (c *Cell) OpenLoop() bool {
	return c.rate().Offers() || strings.HasSuffix(c.Config["rate"], "%") ||
		strings.HasSuffix(c.Config["speed"], "%")
}

// FindsCapacity reports whether the cell is an open loop at the rate [config.RateMax].
func (c *Cell) FindsCapacity() bool { return c.rate() >= config.RateMax }

// OfferedRate returns the rate of an open loop in op/s, or 0 if the cell has none.
func (c *Cell) OfferedRate() float64 {
	if rate := c.rate(); rate.Offers() {
		return float64(rate)
	}
	return 0
}

func (c *Cell) rate() (r config.Rate) {
	switch {
	case c.Capacity != nil:
		return config.Rate(c.Capacity.Rate)
	case c.Run != nil:
		return c.Run.Rate
	}
	_ = r.Set(c.Config["rate"]) // a closed loop if published figures have none
	return r
}

// Metric returns a metric of the cell over all repeats: for response times of an open loop the
// percentile of all windows together, else the median over repeats. ok is false if it is unknown.
func (c *Cell) Metric(name string) (m result.Metric, ok bool) {
	response := strings.HasPrefix(name, "response_")
	if response && c.FindsCapacity() {
		return m, false
	}
	if response && len(c.Pooled) > 0 {
		p, ok := c.Pooled[name]
		d := result.Define(name)
		return result.Metric{Unit: d.Unit, Better: d.Better, Median: p.Value, Low: p.Low,
			High: p.High, N: p.Windows}, ok
	}
	if len(c.Samples[name]) == 0 {
		return m, false
	}
	return result.Summarize(name, c.Samples[name]), true
}

// Median returns the median of a metric, or 0 if the cell does not have it or is nil.
func (c *Cell) Median(metric string) float64 {
	if c == nil {
		return 0
	}
	m, _ := c.Metric(metric)
	return m.Median
}

// Merge adds the repeats of another cell of the same configuration.
func (c *Cell) Merge(more Cell) {
	c.mergeWindows(more)
	switch {
	case len(more.Pooled) == 0 && len(more.Samples[result.ResponseP50]) == 0:
	case len(c.responses) > 0 && len(more.responses) > 0:
		c.responses = slices.Concat(c.responses, more.responses)
		c.Pooled, _ = result.Pool(c.responses) // NewCell has decoded the histograms
	default:
		c.responses, c.Pooled = nil, nil
	}
	for name, values := range more.Samples {
		c.Samples[name] = append(c.Samples[name], values...)
	}
	c.ClockStep = max(c.ClockStep, more.ClockStep)
	c.Warnings = append(c.Warnings, more.Warnings...)
	c.Incomplete = c.Incomplete || more.Incomplete
	c.Files = append(c.Files, more.Files...)
	c.Results = append(c.Results, more.Results...)
	if more.StartedAt.Before(c.StartedAt) {
		c.StartedAt = more.StartedAt
	}
}

// Include adds the cells of other sets. A measured cell of the same configuration, provider,
// runtime and machine as one in s becomes more repeats of that.
func (s *Set) Include(others ...*Set) {
	type identity struct {
		key              string
		provider, digest string
		environment      int
		status           Status
		reason           string
	}
	of := func(c *Cell) identity {
		return identity{c.Key(), c.Plugin.Provider, c.Plugin.RuntimeDigest, c.Environment, c.Status,
			c.Reason}
	}
	known := map[identity]int{}
	for i := range s.Cells {
		known[of(&s.Cells[i])] = i
	}
	for _, other := range others {
		for _, c := range other.Cells {
			if c.Environment >= 0 {
				c.Environment = s.environment(other.Machine(&c))
			}
			id := of(&c)
			if i, found := known[id]; found && c.Status == Measured {
				s.Cells[i].Merge(c)
				continue
			}
			known[id] = len(s.Cells)
			s.Cells = append(s.Cells, c)
		}
	}
}

// NewCell returns a cell with what a comparison needs of a result. It adds the result's machine to
// the set, but not the cell.
func (s *Set) NewCell(r *result.Result, files ...File) (Cell, error) {
	run := r.Config
	machine, err := EnvironmentOf(r.Environment)
	if err != nil {
		return Cell{}, err
	}
	tool := r.Tool // a pointer to a field of r would keep all of r in memory
	c := Cell{
		Run: &run, Status: Measured, StartedAt: r.StartedAt, Files: files, Tool: &tool,
		Plugin:      PluginOf(&r.Plugin),
		Environment: s.environment(machine),
		Schema:      cmp.Or(r.MigratedFrom, r.SchemaVersion),
		ClockStep:   clockStep(r),
		Windows:     windowsOf(r),
		Samples:     map[string][]float64{},
		Incomplete:  r.Incomplete,
		Capacity:    r.Capacity,
	}
	if err := c.flatten(); err != nil {
		return Cell{}, err
	}
	c.Plugin.Path = result.Path(r)
	c.responses = result.ResponsesOf(r.Repeats)
	if c.Pooled, err = result.Pool(c.responses); err != nil {
		return Cell{}, err
	}
	for _, repeat := range r.Repeats {
		for name, value := range repeat.Samples {
			c.Samples[name] = append(c.Samples[name], value)
		}
	}
	if len(c.Samples[result.HarnessOverhead]) == 0 && r.Overhead.PerOpNS > 0 {
		c.Samples[result.HarnessOverhead] = []float64{r.Overhead.PerOpNS}
	}
	for name, metric := range r.Summary { // metrics that are measured once per run
		if _, sampled := c.Samples[name]; !sampled && metric.N == 1 {
			c.Samples[name] = []float64{metric.Median}
		}
	}
	c.dropRatios()
	for _, check := range r.Checks {
		if !check.OK {
			c.Warnings = append(c.Warnings, check)
		}
	}
	return c, nil
}

// dropRatios drops the ratios to floors that mean nothing for the cell's calls in flight, which
// results of 1.x have.
func (c *Cell) dropRatios() {
	if c.Run == nil {
		return
	}
	for name := range c.Samples {
		if !result.RatioApplies(name, c.Run.CallsPerPair()) {
			delete(c.Samples, name)
		}
	}
}

// Warn adds checks that failed when the cell was judged again, except those that had failed already
// when it was written.
func (c *Cell) Warn(found []result.Finding) {
	known := slices.Clone(c.Warnings)
	for _, check := range found {
		if !slices.ContainsFunc(known, func(d result.Finding) bool {
			return d.Name == check.Name
		}) {
			c.Warnings = append(c.Warnings, check)
		}
	}
}

// Broken names the check of severity [result.Error] that failed, so that the cell's numbers must
// not be used; it is empty if there is none.
func (c *Cell) Broken() string {
	for _, w := range c.Warnings {
		if w.Severity == result.Error {
			return "check " + w.Name + " failed: " + w.Message
		}
	}
	return ""
}

// momentary lists the volatile values that change all the time.
var momentary = []string{"load_average", "available_memory_bytes"}

// EnvironmentOf returns a machine as names and values, without what changes all the time.
func EnvironmentOf(e machine.Environment) (machine Environment, err error) {
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

// environment returns the index of a machine and adds a new one.
func (s *Set) environment(machine Environment) int {
	for i, known := range s.Environments {
		if maps.Equal(known.Identity, machine.Identity) &&
			maps.Equal(known.Volatile, machine.Volatile) {
			return i
		}
	}
	s.Environments = append(s.Environments, machine)
	return len(s.Environments) - 1
}

// Machine returns the machine on which a cell was measured; it is empty if unknown.
func (s *Set) Machine(c *Cell) Environment {
	if c.Environment < 0 || c.Environment >= len(s.Environments) {
		return Environment{}
	}
	return s.Environments[c.Environment]
}

// Sort sorts the cells by transport and configuration, numbers by value.
func (s *Set) Sort() {
	slices.SortStableFunc(s.Cells, func(a, b Cell) int {
		return compareConfigs(a.Config, b.Config)
	})
}

// compareConfigs compares configurations by transport, then option by option.
func compareConfigs(a, b map[string]string) int {
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

// Flatten returns the JSON names and values of a struct as text. Names of nested fields have the
// outer name and a dot before them. Lists are JSON; null values are left out.
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

// Differing returns the keys whose values differ, sorted. A key that is missing has the value "".
func Differing(a, b map[string]string) []string {
	keys := map[string]string{}
	maps.Copy(keys, a)
	maps.Copy(keys, b)
	maps.DeleteFunc(keys, func(key, _ string) bool { return a[key] == b[key] })
	return slices.Sorted(maps.Keys(keys))
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

// BothTracks is the track of a cell that is the same on both.
const BothTracks = "both"

// Track names the track that a cell belongs to: "shipped", "matched", or [BothTracks] if the
// transport runs on the track shipped with the checks that the track matched has.
func (c *Cell) Track() string {
	if track := c.Config[trackOption]; track != "" {
		return track
	}
	if c.Config["verify_every"] != "1" {
		return config.TrackShipped.String()
	}
	for option, value := range c.Plugin.Matched {
		if c.Config[ownPrefix+option] != value {
			return config.TrackShipped.String()
		}
	}
	return BothTracks
}
