package config

import (
	"errors"
	"slices"
	"time"

	"transportbench/core/fabric/suggest"
)

// Layer is what one source says about options.
type Layer struct {
	// Values are texts by the option's name or alias.
	Values map[string]string
	// Origin returns the source of a value in the user's words, such as "clients in FILE"; "" is
	// none, for values that the command imposes. A nil Origin is that of flags.
	Origin func(name string) string
	// Profile, if not nil, makes this the layer of the profile that the others choose; it finds it.
	// Without such a layer, built-in profiles stand below all layers.
	Profile func(name string) (Profile, error)
	// ReadFile reads the files that values of this and other layers name. Without it they must not
	// name any.
	ReadFile ReadFile
	// Trace prepares the part of the trace that a configuration names. Without it the option stays
	// a path, and what follows from the trace is not known.
	Trace func(*Config) (*Replay, error)
}

// ReadFile reads a file of at most limit bytes.
type ReadFile func(path string, limit int64) ([]byte, error)

// Origins has the source of the value of each option that a layer set, in the user's words.
type Origins map[string]string

// Source returns the source of an option, by default its flag.
func (o Origins) Source(option string) string {
	if source, known := o[option]; known {
		return source
	}
	return "--" + option
}

// Explain returns err with the source of the option that it is about.
func (o Origins) Explain(err error) error {
	var wrong *Error
	var explained *SourceError
	if !errors.As(err, &wrong) || errors.As(err, &explained) {
		return err
	}
	source := o.Source(wrong.Option)
	if source == "--"+wrong.Option {
		return err
	}
	return &SourceError{Source: source, Problem: wrong.Problem, Err: err}
}

// SourceError is a mistake in a flag, a variable or a file.
type SourceError struct {
	Source  string // "--clients", "TRANSPORTBENCH_CLIENTS", "clients in FILE"; may be empty
	Problem string
	Err     error // may be nil
}

func (e *SourceError) Error() string {
	if e.Source == "" {
		return e.Problem
	}
	return e.Source + ": " + e.Problem
}

func (e *SourceError) Unwrap() error { return e.Err }

// Resolve returns the configuration of layers on top of the defaults. Of several layers that set an
// option, the last one counts; so it does of options that replace each other. A mistake is an
// [*Error] for a flag and a [*SourceError] for another source.
func Resolve(layers ...Layer) (Config, Origins, error) {
	r := resolution{c: Default(), origins: Origins{}, from: map[string]int{}}
	profile, layers, err := r.withProfile(layers)
	if err != nil {
		return r.c, r.origins, r.origins.Explain(err)
	}
	if err := r.read(layers); err != nil {
		return r.c, r.origins, err
	}
	r.c.Profile = profile
	r.replace()
	r.settle()
	if err := r.settleReplay(); err != nil {
		return r.c, r.origins, r.origins.Explain(err)
	}
	return r.c, r.origins, r.origins.Explain(r.c.Validate())
}

// resolution is a configuration in the making.
type resolution struct {
	c       Config
	origins Origins
	from    map[string]int // the layer of each option, from 1; 0 is the default
	trace   func(*Config) (*Replay, error)
}

// withProfile returns the layers with the values of the profile that they choose, and its name.
func (r *resolution) withProfile(layers []Layer) (profile string, all []Layer, err error) {
	at := slices.IndexFunc(layers, func(l Layer) bool { return l.Profile != nil })
	if all = slices.Clone(layers); at < 0 {
		at, all = 0, slices.Insert(all, 0, Layer{Profile: ProfileByName})
	}
	name := r.c.Profile
	for _, l := range all {
		if chosen, has := l.Values[optionProfile]; has {
			name, r.origins[optionProfile] = chosen, l.Source(optionProfile)
		}
	}
	p, err := all[at].Profile(name)
	all[at] = Layer{Values: p.Set, Origin: p.Source, ReadFile: all[at].ReadFile,
		Trace: all[at].Trace}
	return p.Name, all, err
}

// Source returns the origin of a value of the layer in the user's words.
func (l *Layer) Source(name string) string {
	if l.Origin == nil {
		return "--" + name
	}
	return l.Origin(name)
}

// read sets each option to its value in the last layer that has one.
func (r *resolution) read(layers []Layer) error {
	texts := map[string]string{}
	var readFile ReadFile
	for i, l := range layers {
		if l.ReadFile != nil {
			readFile = l.ReadFile
		}
		if l.Trace != nil {
			r.trace = l.Trace
		}
		for given, text := range l.Values {
			name := Canonical(given, text)
			if _, too := l.Values[name]; too && name != given {
				continue // an option goes before another one that stands for it
			}
			if !IsOption(name) {
				return &SourceError{Source: l.Source(given), Problem: "unknown option" +
					suggest.For(given, Names())}
			}
			texts[name], r.from[name], r.origins[name] = text, i+1, l.Source(given)
		}
	}
	for i := range fields {
		f := &fields[i]
		text, has := texts[f.Name]
		if !has {
			continue
		}
		if err := f.parse(&r.c, text, readFile); err != nil {
			return r.origins.Explain(&Error{f.Name, err.Error()})
		}
	}
	return nil
}

// replace turns off what an option of a higher layer replaces. A mix or a pattern of the same layer
// replaces the ratio, too.
func (r *resolution) replace() {
	initial := Default()
	for i := range fields {
		for _, name := range fields[i].Replaces {
			if other := FieldByName(name); r.over(fields[i].Name, name) &&
				other.value(&initial).IsZero() {
				other.value(&r.c).SetZero()
			}
		}
	}
	if len(r.c.Mix) > 0 || len(r.c.Pattern) > 0 {
		r.c.ReadRatio, r.from[optionReadRatio] = initial.ReadRatio, 0
	}
}

// settle gives options the values that follow from others, unless the same layer or a higher one
// sets them, which Validate refuses if they contradict.
func (r *resolution) settle() {
	c := &r.c
	r.settleService()
	if m := c.Model.Shape(); m != nil && r.over(optionModel, optionBytesPerToken) {
		c.BytesPerToken, r.from[optionBytesPerToken] = Size(m.BytesPerToken()), r.from[optionModel]
		if c.Handoff != "" {
			c.BytesPerToken = Size(m.LayerBytes(c.TensorParallel.value()))
		}
	}
	if r.from[optionBytesPerToken] > r.from[optionValueSize] && c.BytesPerToken > 0 {
		c.ValueSize = FixedSize(c.BlockSize())
	}
	r.settleHandoff()
	if c.Track == TrackMatched && r.over(optionTrack, optionVerifyEvery) {
		c.VerifyEvery = 1
	}
	r.settleTraffic()
	r.settleClasses()
	if r.from[optionWarmup] == 0 && c.Duration > 0 && c.Duration < c.Warmup/warmupWindows {
		c.Warmup = min(c.Warmup, max(warmupWindows*c.Duration, minWarmup))
	}
}

// over reports whether an option is from a higher layer than another one.
func (r *resolution) over(name, other string) bool { return r.from[name] > r.from[other] }

// settleService drops operations that the service does not have.
func (r *resolution) settleService() {
	ratio, fixed := r.c.Service.ReadRatio()
	if !fixed {
		return
	}
	if r.over(optionService, optionReadRatio) {
		r.c.ReadRatio = ratio
	}
	if r.over(optionService, optionMix) {
		r.c.Mix = nil
	}
	if r.over(optionService, optionPattern) && !r.c.Service.Serves(r.c.Pattern) {
		r.c.Pattern = nil
	}
}

// settleTraffic gives a pattern of traffic its topology and its number of ranks.
func (r *resolution) settleTraffic() {
	c := &r.c
	if c.Traffic == "" {
		return
	}
	if r.over(optionTraffic, optionRanks) {
		c.Ranks = c.Traffic.DefaultRanks()
	}
	switch {
	case !r.over(optionTraffic, optionTopology):
	case !c.Traffic.Mesh():
		c.Topology = TopologyClientServer
	case !c.Mesh():
		c.Topology = TopologyMeshDirect
	}
}

// settleClasses replaces what classes of traffic have themselves, and a store by an echo.
func (r *resolution) settleClasses() {
	c := &r.c
	if len(c.Classes) == 0 {
		return
	}
	over := func(name string) bool { return r.over(optionClass, name) }
	clients, inFlight, size := c.Classes.Totals()
	if over(optionClients) {
		c.Clients = clients
	}
	if over(optionInFlight) {
		c.InFlight = inFlight
	}
	if over(optionValueSize) && over(optionBytesPerToken) {
		c.ValueSize, c.BytesPerToken = FixedSize(size), 0
	}
	if over(optionRate) {
		c.Rate = 0
	}
	if over(optionPattern) {
		c.Pattern = nil
	}
	if over(optionService) && c.Service == ServiceStore {
		c.Service, c.Mix = ServiceEcho, nil
		c.ReadRatio, _ = c.Service.ReadRatio()
	}
}

// The default warm-up takes at most warmupWindows windows, or minWarmup if that is longer. On a
// busy machine throughput is never steady, so each launch would spend most of its time on the
// warm-up.
const (
	warmupWindows = 10
	minWarmup     = Duration(50 * time.Millisecond)
)
