package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"transportbench/core/base/config"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/experiment/hosts/engine"
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
	// Witness asks for a reference tool beside the windows.
	Witness bool
	JSON    bool
	Verbose bool
	Quiet   bool
	Hosts   Hosts
	// File is the path of the configuration file, or empty if there is none.
	File string

	origins config.Origins // of options and settings
	flags   *pflag.FlagSet
}

// Hosts are the options of a run on other hosts.
type Hosts struct {
	// Hosts, Hostfile and Launch say what starts agents; at most one is set.
	Hosts, Hostfile, Launch string
	RemoteCommand           string
	Secret                  string // file; empty for the default, or [NoSecret]

	Listen       string
	Agents       int
	JoinTimeout  time.Duration // 0 for none
	HostTimeout  time.Duration
	RanksPerHost int
	Map          string
	ShareMachine bool
}

// NoSecret as the option secret has the launcher carry a ticket that needs no secret.
const NoSecret = "none"

// All selects every transport that can run.
const All = "all"

// Resolve returns the settings of a command. An option comes from the first of
// these that sets it: fixed (values that the command imposes), flags,
// TRANSPORTBENCH_ variables, the configuration file, the profile, defaults (the
// command's own), and the general defaults. A mistake is an [*Error] or a
// [*config.Error].
func Resolve(flags *pflag.FlagSet, defaults, fixed map[string]string) (*Settings, error) {
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	r := &resolver{flags: flags, layers: []config.Layer{
		{Values: defaults}, {}, fromVariables(), fromFlags(flags),
		{Values: fixed, Origin: func(string) string { return "" }},
	}}
	path, _, _ := r.find(KeyConfig)
	file, err := readFile(path)
	if err != nil {
		return nil, err
	}
	r.layers[1] = config.Layer{Values: file.values, Origin: file.source}
	s := &Settings{File: file.path, flags: flags}
	general := r.general()
	if s.Config, s.origins, err = config.Resolve(
		slices.Insert(general, 1, r.profiles())...); err != nil {
		return nil, err
	}
	r.origins = s.origins
	if err := r.settings(s); err != nil {
		return nil, err
	}
	s.Set, err = r.set(file)
	return s, err
}

// profiles is Profiles, but refuses to read a trace for a run on several hosts.
func (r *resolver) profiles() config.Layer {
	l := Profiles()
	task, found := engine.FindTask(os.Getenv)
	if found && task.Size > 1 || slices.ContainsFunc(
		[]string{KeyHosts, KeyHostfile, KeyLaunch, KeyListen}, func(key string) bool {
			text, _, _ := r.find(key)
			return text != ""
		}) {
		l.Trace = func(*config.Config) (*config.Replay, error) {
			return nil, errors.New("a trace is replayed on one host, where its file is: leave " +
				"out --replay, or the options for other hosts")
		}
	}
	return l
}

func fromVariables() config.Layer {
	values := map[string]string{}
	for _, key := range keys() {
		if v := os.Getenv(variable(key)); v != "" {
			values[key] = v
		}
	}
	return config.Layer{Values: values, Origin: variable}
}

func fromFlags(flags *pflag.FlagSet) config.Layer {
	values := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && slices.Contains(keys(), f.Name) {
			values[f.Name] = f.Value.String()
		}
	})
	return config.Layer{Values: values}
}

// resolver finds the value and the origin of every setting.
type resolver struct {
	flags   *pflag.FlagSet
	layers  []config.Layer // the last one that has a key counts
	origins config.Origins
}

// find returns the value of a key and where it comes from.
func (r *resolver) find(key string) (text, source string, has bool) {
	for _, l := range slices.Backward(r.layers) {
		if text, has = l.Values[key]; has {
			return text, l.Source(key), true
		}
	}
	return "", "", false
}

// general returns the layers with the options of a run alone.
func (r *resolver) general() []config.Layer {
	layers := slices.Clone(r.layers)
	for i, l := range layers {
		layers[i].Values = map[string]string{}
		for key, text := range l.Values {
			if config.IsOption(key) {
				layers[i].Values[key] = text
			}
		}
	}
	return layers
}

// settings reads the keys that are not part of a run's configuration.
func (r *resolver) settings(s *Settings) error {
	var schema []transport.Option
	given := map[string]string{KeyTransport: config.Default().Transport}
	for _, f := range settings {
		schema = append(schema, f.Option)
		if text, source, has := r.find(f.Name); has {
			given[f.Name], r.origins[f.Name] = text, source
		}
	}
	v, err := suggest.ParseOptions(schema, given)
	var wrong *transport.OptionError
	if errors.As(err, &wrong) {
		return &config.SourceError{Source: r.origins.Source(wrong.Option), Problem: wrong.Problem,
			Err: err}
	}
	s.Out, s.PluginDir = v.String(KeyOut), v.String(KeyPluginDir)
	s.AllowMixed, s.Witness, s.JSON = v.Bool(KeyAllowMixed), v.Bool(KeyWitness), v.Bool(KeyJSON)
	s.Verbose, s.Quiet = v.Bool(KeyVerbose), v.Bool(KeyQuiet)
	s.StartTimeout = v.Duration(KeyStartTimeout)
	s.Hosts = Hosts{
		Hosts: v.String(KeyHosts), Hostfile: v.String(KeyHostfile), Launch: v.String(KeyLaunch),
		RemoteCommand: v.String(KeyRemoteCommand), Secret: v.String(KeySecret),
		Listen: v.String(KeyListen), Agents: v.Int(KeyAgents),
		JoinTimeout:  v.Duration(KeyJoinTimeout),
		HostTimeout:  v.Duration(KeyHostTimeout),
		RanksPerHost: v.Int(KeyRanksPerHost), Map: v.String(KeyMap),
		ShareMachine: v.Bool(KeyShareMachine),
	}
	s.Transports, err = transports(v.String(KeyTransport))
	if err != nil {
		return &config.SourceError{Source: r.origins.Source(KeyTransport), Problem: err.Error(),
			Err: err}
	}
	return nil
}

// transports returns the names in a list, each once.
func transports(text string) (names []string, err error) {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("%q has an empty name; see plugins list", text)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 1 && slices.Contains(names, All) {
		return nil, fmt.Errorf("%q: all must stand alone", text)
	}
	return names, nil
}

// set merges the transports' own options one by one: a flag for one of them
// keeps what the file says about another.
func (r *resolver) set(f *file) (map[string]string, error) {
	merged := map[string]string{}
	for key, value := range f.set {
		merged[key] = value
		r.origins[KeySet+"."+key] = f.source(KeySet)
	}
	add := func(source string, items []string) error {
		for _, item := range items {
			key, value, found := strings.Cut(item, "=")
			key = strings.TrimSpace(key)
			if !found || key == "" {
				return &config.SourceError{Source: source,
					Problem: fmt.Sprintf("%q is not of the form key=value", item)}
			}
			merged[key] = value
			r.origins[KeySet+"."+key] = source
		}
		return nil
	}
	if text := os.Getenv(variable(KeySet)); text != "" {
		if err := add(variable(KeySet), SplitList(text)); err != nil {
			return nil, err
		}
	}
	return merged, add("--"+KeySet, SetItems(r.flags))
}

// Origin returns what sets an option, in the user's words, or "" if nothing does. Options of a
// transport itself begin with "set.".
func (s *Settings) Origin(option string) string {
	origin := s.origins[option]
	if origin == "--"+option && !s.flags.Changed(option) { // as errors say of a built-in profile
		return "profile " + s.Config.Profile
	}
	return origin
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
	var wrong *config.Error
	switch {
	case errors.As(err, &wrongOption):
		source, ok := s.origins[KeySet+"."+wrongOption.Option]
		if !ok {
			source = "--" + KeySet
		}
		return &config.SourceError{Source: source, Problem: where + wrongOption.Error(), Err: err}
	case errors.As(err, &wrong):
		return &config.SourceError{Source: s.origins.Source(wrong.Option), Problem: where +
			wrong.Problem, Err: err}
	case errors.Is(err, transport.ErrTooLarge):
		// A transport refuses to open for payloads that it can never send.
		return &config.SourceError{Source: s.origins.Source("value-size"), Problem: err.Error() +
			"; use smaller values", Err: err}
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
			return &config.SourceError{Source: name, Problem: "unknown variable" +
				suggest.For(name, known)}
		}
	}
	return nil
}
