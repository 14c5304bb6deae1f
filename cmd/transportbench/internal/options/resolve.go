package options

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cast"
	"github.com/spf13/pflag"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/transport"
)

// Settings has everything that the user chose, and defaults for the rest.
type Settings struct {
	// Config is complete except for Transport and Options, which differ from
	// one transport to the next.
	Config config.Config
	// Transports are names, or only [All].
	Transports []string
	// Set has the transports' own options, unchecked.
	Set map[string]string

	Out        string
	PluginDir  string
	AllowMixed bool
	// StartTimeout is how long a rank may take for each step of the setup.
	StartTimeout time.Duration
	// Witness asks for a benchmark of the field beside the windows.
	Witness bool
	JSON    bool
	Verbose bool
	Hosts   Hosts
	// File is the path of the configuration file, or empty if there is none.
	File string

	sources map[string]string // by key, in the user's words
}

// Hosts are the options of a run on other hosts.
type Hosts struct {
	// Hosts, Hostfile and Launch say what starts agents; at most one is set.
	Hosts, Hostfile, Launch string
	RemoteCommand           string

	Listen       string
	Agents       int
	JoinTimeout  time.Duration // 0 for none
	RanksPerHost int
	Map          string
	ShareMachine bool
}

// All selects every transport that can run.
const All = "all"

// Error reports a mistake in a flag, a variable or a file.
type Error struct {
	Source  string // "--clients", "TRANSPORTBENCH_CLIENTS", "clients in FILE"
	Problem string
	Err     error // may be nil
}

func (e *Error) Error() string {
	if e.Source == "" {
		return e.Problem
	}
	return e.Source + ": " + e.Problem
}

func (e *Error) Unwrap() error { return e.Err }

// Resolve returns the settings of a command. An option comes from the first of
// these that sets it: fixed (values that the command imposes), flags,
// TRANSPORTBENCH_ variables, the configuration file, the profile, defaults (the
// command's own), and the general defaults. A mistake is an [*Error] or a
// [*config.Error].
func Resolve(flags *pflag.FlagSet, defaults, fixed map[string]string) (*Settings, error) {
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	r := &resolver{flags: flags, fixed: fixed, defaults: generalDefaults(), file: new(file), sources: map[string]string{}}
	maps.Copy(r.defaults, defaults)
	path, err := r.text(KeyConfig)
	if err != nil {
		return nil, err
	}
	if r.file, err = readFile(path); err != nil {
		return nil, err
	}
	name, err := r.text(keyProfile)
	if err != nil {
		return nil, err
	}
	if r.profile, err = FindProfile(name); err != nil {
		return nil, r.blame(keyProfile, err)
	}
	s := &Settings{File: r.file.path, sources: r.sources}
	if s.Config, err = r.config(); err != nil {
		return nil, err
	}
	if err := r.settings(s); err != nil {
		return nil, err
	}
	s.Set, err = r.set()
	return s, err
}

func generalDefaults() map[string]string {
	initial := config.Default()
	defaults := map[string]string{}
	for _, s := range settings {
		defaults[s.name] = s.initial
	}
	for _, o := range configOptions {
		defaults[o.name] = o.show(&initial)
	}
	defaults[KeyTransport] = initial.Transport
	return defaults
}

// Build makes a configuration from values, by flag name, and from the profile
// that they select. It ignores variables and files. A mistake is an [*Error] or
// a [*config.Error].
func Build(values map[string]string) (config.Config, error) {
	c := config.Default()
	name := c.Profile
	if given, has := values[keyProfile]; has {
		name = given
	}
	profile, err := config.ProfileByName(name)
	if err != nil {
		return c, err
	}
	all := map[string]string{}
	maps.Copy(all, profile.Set)
	maps.Copy(all, values)
	if err := read(&c, all, func(key string) string { return key }); err != nil {
		return c, err
	}
	level := func(key string) level {
		if _, has := values[key]; has {
			return levelFlag
		} else if _, has := profile.Set[key]; has {
			return levelProfile
		}
		return levelDefault
	}
	settleService(&c, level)
	settleTokens(&c, level)
	settleTrack(&c, level)
	settleTraffic(&c, level)
	settleClasses(&c, level)
	settleWarmup(&c, level)
	return c, c.Validate()
}

// read sets the options of c that values has; source names the origin of one.
func read(c *config.Config, values map[string]string, source func(key string) string) error {
	for _, o := range configOptions {
		text, has := values[o.name]
		if !has {
			continue
		}
		if err := o.read(c, text); err != nil {
			return &Error{Source: source(o.name), Problem: err.Error(), Err: err}
		}
	}
	return nil
}

// resolver finds the value and the origin of every key.
type resolver struct {
	flags           *pflag.FlagSet
	fixed, defaults map[string]string
	file            *file
	profile         Profile
	sources         map[string]string
}

// level says where a value comes from. A higher level wins.
type level int

const (
	levelDefault level = iota
	levelProfile
	levelFile
	levelVariable
	levelFlag
	levelFixed
)

// find returns the value of a key and where it comes from.
func (r *resolver) find(key string) (any, level) {
	value, from := r.given(key)
	if key != keyPattern && key != keyTraffic {
		return value, from
	}
	// A pattern of traffic may be given as the pattern.
	pattern, at := r.given(keyPattern)
	text, _ := pattern.(string)
	switch is := config.IsTraffic(text); {
	case is && key == keyTraffic && at > from:
		return pattern, at
	case is && key == keyPattern:
		if v, ok := r.profile.Set[key]; ok {
			return v, levelProfile
		}
		return r.defaults[key], levelDefault
	}
	return value, from
}

// given returns the value of a key that the user gave, or a default, and where it comes from.
func (r *resolver) given(key string) (any, level) {
	if v, ok := r.fixed[key]; ok {
		return v, levelFixed
	}
	if f := r.flags.Lookup(key); f != nil && f.Changed {
		return f.Value.String(), levelFlag
	}
	if v := os.Getenv(variable(key)); v != "" {
		return v, levelVariable
	}
	if v, ok := r.file.values[key]; ok {
		return v, levelFile
	}
	if v, ok := r.profile.Set[key]; ok {
		return v, levelProfile
	}
	return r.defaults[key], levelDefault
}

func (r *resolver) level(key string) level {
	_, from := r.find(key)
	return from
}

// text returns the value of a key as the user wrote it.
func (r *resolver) text(key string) (string, error) {
	value, _ := r.find(key)
	r.sources[key] = r.source(key)
	if list, ok := value.([]any); ok && key == KeyTransport {
		names, err := cast.ToStringSliceE(list)
		return strings.Join(names, ","), err
	}
	text, err := cast.ToStringE(value)
	if err != nil {
		return "", &Error{Source: r.source(key), Problem: "not a plain value"}
	}
	return text, nil
}

// source names the origin of a key's value in the user's words. It is empty
// for a value that the command imposes.
func (r *resolver) source(key string) string {
	switch r.level(key) {
	case levelFixed:
		return ""
	case levelVariable:
		return variable(key)
	case levelFile:
		return key + " in " + r.file.path
	case levelProfile:
		return r.profile.source(key)
	}
	return "--" + key
}

// blame replaces the flag in an error by the true origin of the value.
func (r *resolver) blame(key string, err error) error {
	source := r.source(key)
	var wrong *config.Error
	if source == "--"+key || !errors.As(err, &wrong) {
		return err
	}
	return &Error{Source: source, Problem: wrong.Problem, Err: err}
}

func (r *resolver) config() (config.Config, error) {
	c := config.Default()
	values := map[string]string{}
	for _, o := range configOptions {
		var err error
		if values[o.name], err = r.text(o.name); err != nil {
			return c, err
		}
	}
	if err := read(&c, values, r.source); err != nil {
		return c, err
	}
	c.Profile = r.profile.Name
	settle(&c, r.level)
	err := c.Validate()
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return c, r.blame(wrong.Option, err)
	}
	return c, err
}

// settle resolves options that replace each other: the one from the higher
// level counts, so a ratio on the command line replaces the mix of a profile.
// At the same level a mix or a pattern counts.
func settle(c *config.Config, level func(key string) level) {
	mix, pattern := level(keyMix), level(keyPattern)
	top := max(level(keyReadRatio), mix, pattern)
	if mix < top {
		c.Mix = nil
	}
	if pattern < top {
		c.Pattern = nil
	}
	settleService(c, level)
	settleTrack(c, level)
	settleTraffic(c, level)
	settleWarmup(c, level)
	settleTokens(c, level)
	settleClasses(c, level)
}

// settleTokens computes the size of values from that of tokens, unless a higher level sets it.
func settleTokens(c *config.Config, level func(key string) level) {
	switch size, token := level(keyValueSize), level(keyBytesPerToken); {
	case size > token:
		c.BytesPerToken = 0
	case size < token && c.BytesPerToken > 0:
		c.ValueSize = config.FixedSize(c.BlockSize())
	}
}

// settleTrack makes the track matched verify every value, unless the same level or a higher one says
// otherwise, which Validate refuses.
func settleTrack(c *config.Config, level func(key string) level) {
	if c.Track == config.TrackMatched && level(KeyTrack) > level(keyVerifyEvery) {
		c.VerifyEvery = 1
	}
}

// settleTraffic gives a pattern of traffic its topology and its number of ranks, unless the same level or
// a higher one says otherwise.
func settleTraffic(c *config.Config, level func(key string) level) {
	from := level(keyTraffic)
	if c.Traffic == "" || from == levelDefault {
		return
	}
	if from > level(keyRanks) {
		c.Ranks = c.Traffic.DefaultRanks()
	}
	switch {
	case from <= level(keyTopology):
	case !c.Traffic.Mesh():
		c.Topology = config.TopologyClientServer
	case !c.Mesh():
		c.Topology = config.TopologyMeshDirect
	}
}

// settleClasses replaces what classes of traffic have themselves, and a store by an echo, unless the same
// level or a higher one sets it, which Validate refuses.
func settleClasses(c *config.Config, level func(key string) level) {
	from := level(KeyClass)
	if len(c.Classes) == 0 || from == levelDefault {
		return
	}
	above := func(key string) bool { return from > level(key) }
	clients, inFlight, size := c.Classes.Totals()
	if above(keyClients) {
		c.Clients = clients
	}
	if above(keyInFlight) {
		c.InFlight = inFlight
	}
	if above(keyValueSize) && above(keyBytesPerToken) {
		c.ValueSize, c.BytesPerToken = config.FixedSize(size), 0
	}
	if above(keyRate) {
		c.Rate = 0
	}
	if above(keyPattern) {
		c.Pattern = nil
	}
	if above(keyService) && c.Service == config.ServiceStore {
		c.Service, c.Mix = config.ServiceEcho, nil
		c.ReadRatio, _ = c.Service.ReadRatio()
	}
}

// The default warm-up takes at most warmupWindows windows, or leastWarmup if that is longer. On a busy
// machine throughput is never steady, so each launch would spend most of its time on the warm-up.
const (
	warmupWindows = 10
	leastWarmup   = config.Duration(50 * time.Millisecond)
)

// settleWarmup bounds the default of the warm-up by the windows.
func settleWarmup(c *config.Config, level func(key string) level) {
	if level(keyWarmup) == levelDefault && c.Duration > 0 && c.Duration < c.Warmup/warmupWindows {
		c.Warmup = min(c.Warmup, max(warmupWindows*c.Duration, leastWarmup))
	}
}

// settleService drops operations from a lower level than that of a service that does not have them.
func settleService(c *config.Config, level func(key string) level) {
	ratio, fixed := c.Service.ReadRatio()
	if !fixed {
		return
	}
	from := level(keyService)
	if from > level(keyReadRatio) {
		c.ReadRatio = ratio
	}
	if from > level(keyMix) {
		c.Mix = nil
	}
	if from > level(keyPattern) && !c.Service.Serves(c.Pattern) {
		c.Pattern = nil
	}
}

// The ranges of KeyStartTimeout and KeyJoinTimeout.
const (
	leastStartTimeout = config.Duration(100 * time.Millisecond)
	mostStartTimeout  = config.Duration(time.Hour)
	mostJoinTimeout   = config.Duration(30 * 24 * time.Hour)
)

// mostHosts bounds the hosts of a run, and the ranks of each.
const mostHosts = 4096

// duration reads a setting that is a duration in a range.
func (r *resolver) duration(key string, least, most config.Duration) (time.Duration, error) {
	text, err := r.text(key)
	if err != nil {
		return 0, err
	}
	d, err := parseDuration(text)
	if err = isNot("a duration such as 500ms or 1.5s", text, err); err == nil && (d < least || d > most) {
		err = fmt.Errorf("%s is out of range (%v to %v)", text, least, most)
	}
	if err != nil {
		return 0, &Error{Source: r.source(key), Problem: err.Error(), Err: err}
	}
	return time.Duration(d), nil
}

// settings reads the keys that are not part of a run's configuration.
func (r *resolver) settings(s *Settings) error {
	for key, field := range map[string]*string{
		KeyOut: &s.Out, KeyPluginDir: &s.PluginDir, KeyListen: &s.Hosts.Listen, KeyMap: &s.Hosts.Map, KeyHosts: &s.Hosts.Hosts,
		KeyHostfile: &s.Hosts.Hostfile, KeyLaunch: &s.Hosts.Launch, KeyRemoteCommand: &s.Hosts.RemoteCommand,
	} {
		text, err := r.text(key)
		if err != nil {
			return err
		}
		*field = text
	}
	for key, field := range map[string]*int{KeyAgents: &s.Hosts.Agents, KeyRanksPerHost: &s.Hosts.RanksPerHost} {
		text, err := r.text(key)
		if err != nil {
			return err
		}
		if *field, err = strconv.Atoi(text); err != nil || *field < 0 || *field > mostHosts {
			return &Error{Source: r.source(key), Problem: fmt.Sprintf("%q is not a whole number from 0 to %d", text, mostHosts)}
		}
	}
	for key, field := range map[string]*bool{
		KeyAllowMixed: &s.AllowMixed, KeyJSON: &s.JSON, KeyVerbose: &s.Verbose, KeyWitness: &s.Witness, KeyShareMachine: &s.Hosts.ShareMachine,
	} {
		text, err := r.text(key)
		if err != nil {
			return err
		}
		if *field, err = parseBool(text); err != nil {
			return &Error{Source: r.source(key), Problem: err.Error(), Err: err}
		}
	}
	var err error
	if s.StartTimeout, err = r.duration(KeyStartTimeout, leastStartTimeout, mostStartTimeout); err != nil {
		return err
	}
	if s.Hosts.JoinTimeout, err = r.duration(KeyJoinTimeout, 0, mostJoinTimeout); err != nil {
		return err
	}
	text, err := r.text(KeyTransport)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			return &Error{Source: r.source(KeyTransport), Problem: fmt.Sprintf("%q has an empty name; see plugins list", text)}
		}
		if !slices.Contains(s.Transports, name) {
			s.Transports = append(s.Transports, name)
		}
	}
	if len(s.Transports) > 1 && slices.Contains(s.Transports, All) {
		return &Error{Source: r.source(KeyTransport), Problem: fmt.Sprintf("%q: all must stand alone", text)}
	}
	return nil
}

// set merges the transports' own options one by one: a flag for one of them
// keeps what the file says about another.
func (r *resolver) set() (map[string]string, error) {
	merged := map[string]string{}
	for key, value := range r.file.set {
		merged[key] = value
		r.sources[KeySet+"."+key] = KeySet + " in " + r.file.path
	}
	add := func(source string, items []string) error {
		for _, item := range items {
			key, value, found := strings.Cut(item, "=")
			key = strings.TrimSpace(key)
			if !found || key == "" {
				return &Error{Source: source, Problem: fmt.Sprintf("%q is not of the form key=value", item)}
			}
			merged[key] = value
			r.sources[KeySet+"."+key] = source
		}
		return nil
	}
	if text := os.Getenv(variable(KeySet)); text != "" {
		if err := add(variable(KeySet), strings.Split(text, ",")); err != nil {
			return nil, err
		}
	}
	return merged, add("--"+KeySet, SetItems(r.flags))
}

// Explain returns err with the true origin of the option that it is about. It
// serves errors that show up only when a transport is asked; others it returns
// unchanged.
func (s *Settings) Explain(err error) error {
	where := ""
	var rank *runner.RankError
	if errors.As(err, &rank) && rank.Host != "" {
		where = "on " + rank.Host + ": "
	}
	var wrongOption *transport.OptionError
	if errors.As(err, &wrongOption) {
		source, ok := s.sources[KeySet+"."+wrongOption.Option]
		if !ok {
			source = "--" + KeySet
		}
		return &Error{Source: source, Problem: where + wrongOption.Error(), Err: err}
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		source, ok := s.sources[wrong.Option]
		if !ok {
			source = "--" + wrong.Option
		}
		return &Error{Source: source, Problem: where + wrong.Problem, Err: err}
	}
	if errors.Is(err, transport.ErrTooLarge) {
		// A transport refuses to open for payloads that it can never send.
		return &Error{Source: s.sources[keyValueSize], Problem: err.Error() + "; use smaller values", Err: err}
	}
	return err
}

const prefix = "TRANSPORTBENCH_"

// otherVariables belong to the plugin host, to plugins and to tests.
var otherVariables = []string{
	prefix + "PLUGIN_PATH",
	prefix + "REATTACH",
	prefix + "LOG_LEVEL",
	prefix + "TICKET",
	prefix + "FORBID_SKIPS",
}

// variable returns the environment variable of a key.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// checkEnvironment reports a variable with our prefix that nothing reads.
func checkEnvironment(environ []string) error {
	known := slices.Clone(otherVariables)
	for _, key := range keys() {
		known = append(known, variable(key))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && !slices.Contains(known, name) {
			return &Error{Source: name, Problem: "unknown variable" + transport.SuggestionFor(name, known)}
		}
	}
	return nil
}
