package options

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cast"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// Settings is everything that the user chose, or left at its default.
type Settings struct {
	// Config is complete but for Transport and Options, which differ from one
	// transport to the next.
	Config config.Config
	// Transports are names, or the one word "all".
	Transports []string
	// Set has the transports' own options, unchecked.
	Set map[string]string

	Out        string
	PluginDir  string
	AllowMixed bool
	JSON       bool
	Verbose    bool
	// File is the configuration file in use; empty is none.
	File string

	sources map[string]string // key to what set it, in the user's words
}

// All is the word for every transport that can run.
const All = "all"

// Error is a mistake in what the user gave: a flag, a variable, a file.
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

// Resolve reads flags, then TRANSPORTBENCH_ variables, then the configuration
// file, then the profile, then the command's own defaults, then everybody's.
// fixed is above them all: what a command sets itself. Whatever is wrong is an
// [*Error] or a [*config.Error].
func Resolve(flags *pflag.FlagSet, defaults, fixed map[string]string) (*Settings, error) {
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	v := viper.New()
	for _, key := range keys() {
		if err := v.BindEnv(key, variable(key)); err != nil {
			return nil, err
		}
		if f := flags.Lookup(key); f != nil && key != KeySet {
			if err := v.BindFlagValue(key, flagText{f}); err != nil {
				return nil, err
			}
		}
	}
	for key, value := range fixed {
		v.Set(key, value)
	}
	file, err := readFile(v.GetString(KeyConfig))
	if err != nil {
		return nil, err
	}
	if err := v.MergeConfigMap(file.values); err != nil {
		return nil, err
	}
	r := &resolver{viper: v, flags: flags, file: file, fixed: fixed, sources: map[string]string{}}
	return r.resolve(defaults)
}

// resolver carries what the steps of one resolution share.
type resolver struct {
	viper   *viper.Viper
	flags   *pflag.FlagSet
	file    *file
	fixed   map[string]string
	profile Profile
	sources map[string]string
}

func (r *resolver) resolve(defaults map[string]string) (*Settings, error) {
	initial := config.Default()
	s := &Settings{File: r.file.path, sources: r.sources, Config: initial}
	r.setDefault(KeyTransport, initial.Transport)
	for _, set := range settings {
		if set.initial != "" {
			r.setDefault(set.name, set.initial)
		}
	}
	for _, o := range configOptions {
		r.setDefault(o.name, o.show(&initial))
	}
	for key, value := range defaults {
		r.setDefault(key, value)
	}
	if err := r.applyProfile(); err != nil {
		return nil, err
	}
	if err := r.readConfig(&s.Config); err != nil {
		return nil, err
	}
	if err := r.readSettings(s); err != nil {
		return nil, err
	}
	var err error
	s.Set, err = r.readSet()
	return s, err
}

func (r *resolver) setDefault(key, value string) { r.viper.SetDefault(key, value) }

// applyProfile puts the profile's values in the place of the defaults. A
// command's own default gives way to it too: the profile is the user's choice.
func (r *resolver) applyProfile() error {
	name, err := r.text("profile")
	if err != nil {
		return err
	}
	if r.profile, err = FindProfile(name); err != nil {
		return r.blame("profile", err)
	}
	for key, value := range r.profile.Set {
		r.setDefault(key, value)
	}
	return nil
}

func (r *resolver) readConfig(c *config.Config) error {
	for _, o := range configOptions {
		text, err := r.text(o.name)
		if err != nil {
			return err
		}
		if err := o.read(c, text); err != nil {
			return &Error{Source: r.source(o.name), Problem: err.Error(), Err: err}
		}
	}
	c.Profile = r.profile.Name
	settle(c, r.level)
	if err := c.Validate(); err != nil {
		var wrong *config.Error
		if errors.As(err, &wrong) {
			return r.blame(wrong.Option, err)
		}
		return err
	}
	return nil
}

func (r *resolver) readSettings(s *Settings) error {
	texts := map[string]*string{KeyOut: &s.Out, KeyPluginDir: &s.PluginDir}
	for key, field := range texts {
		text, err := r.text(key)
		if err != nil {
			return err
		}
		*field = text
	}
	bools := map[string]*bool{KeyAllowMixed: &s.AllowMixed, KeyJSON: &s.JSON, KeyVerbose: &s.Verbose}
	for key, field := range bools {
		text, err := r.text(key)
		if err != nil {
			return err
		}
		if *field, err = parseBool(text); err != nil {
			return &Error{Source: r.source(key), Problem: err.Error(), Err: err}
		}
	}
	text, err := r.text(KeyTransport)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			return &Error{Source: r.source(KeyTransport), Problem: "a name is empty; see plugins list"}
		}
		if !seen[name] {
			s.Transports = append(s.Transports, name)
		}
		seen[name] = true
	}
	if len(s.Transports) > 1 && seen[All] {
		return &Error{Source: r.source(KeyTransport), Problem: "all stands alone"}
	}
	return nil
}

// readSet merges the transports' own options, which are set one by one: a flag
// for one of them leaves what the file says of another.
func (r *resolver) readSet() (map[string]string, error) {
	merged := maps.Clone(r.file.set)
	for key := range merged {
		r.sources[KeySet+"."+key] = KeySet + " in " + r.file.path
	}
	add := func(source, item string) error {
		key, value, found := strings.Cut(item, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" {
			return &Error{Source: source, Problem: fmt.Sprintf("%q is not of the form key=value", item)}
		}
		merged[key] = value
		r.sources[KeySet+"."+key] = source
		return nil
	}
	if text := os.Getenv(variable(KeySet)); text != "" {
		for item := range strings.SplitSeq(text, ",") {
			if err := add(variable(KeySet), item); err != nil {
				return nil, err
			}
		}
	}
	if f := r.flags.Lookup(KeySet); f != nil {
		for _, item := range f.Value.(*listValue).items {
			if err := add("--"+KeySet, item); err != nil {
				return nil, err
			}
		}
	}
	return merged, nil
}

// text returns a key's value as it was written, from wherever it comes.
func (r *resolver) text(key string) (string, error) {
	value := r.viper.Get(key)
	if list, ok := value.([]any); ok && key == KeyTransport {
		names, err := cast.ToStringSliceE(list)
		return strings.Join(names, ","), err
	}
	text, err := cast.ToStringE(value)
	if err != nil {
		return "", &Error{Source: r.source(key), Problem: "is not a plain value"}
	}
	r.sources[key] = r.source(key)
	return text, nil
}

// The places that options come from, the first to look at last.
const (
	levelDefault = iota
	levelProfile
	levelFile
	levelVariable
	levelFlag
	levelFixed
)

// level returns the place that a key's value comes from.
func (r *resolver) level(key string) int {
	if _, ok := r.fixed[key]; ok {
		return levelFixed
	}
	if f := r.flags.Lookup(key); f != nil && f.Changed {
		return levelFlag
	}
	if os.Getenv(variable(key)) != "" {
		return levelVariable
	}
	if _, ok := r.file.values[key]; ok {
		return levelFile
	}
	if _, ok := r.profile.Set[key]; ok {
		return levelProfile
	}
	return levelDefault
}

// settle lets options that stand in for each other give way to the one that
// comes from the higher place: a ratio on the command line is not lost to the
// mix of a profile. In the same place a mix or a pattern is meant where there
// is one.
func settle(c *config.Config, level func(key string) int) {
	mix, pattern := level(keyMix), level(keyPattern)
	top := max(level(keyReadRatio), mix, pattern)
	if mix < top {
		c.Mix = nil
	}
	if pattern < top {
		c.Pattern = nil
	}
	switch size, token := level(keyValueSize), level(keyBytesPerToken); {
	case size > token:
		c.BytesPerToken = 0
	case size < token && c.BytesPerToken > 0:
		c.ValueSize = config.FixedSize(c.BlockSize())
	}
}

// source says in the user's words what set a key; it is empty for what the
// command sets itself.
func (r *resolver) source(key string) string { return r.place(key, r.level(key)) }

func (r *resolver) place(key string, level int) string {
	switch level {
	case levelFixed:
		return ""
	case levelVariable:
		return variable(key)
	case levelFile:
		return key + " in " + r.file.path
	case levelProfile:
		if r.profile.Path != "" {
			return key + " in " + r.profile.Path
		}
	}
	return "--" + key
}

// blame names the true source of an error that speaks of a flag.
func (r *resolver) blame(key string, err error) error {
	source := r.source(key)
	var wrong *config.Error
	if source == "--"+key || !errors.As(err, &wrong) {
		return err
	}
	return &Error{Source: source, Problem: wrong.Problem, Err: err}
}

// Explain names the true source of an error of an option that was found later
// on, when a transport was asked. Other errors it returns as they are.
func (s *Settings) Explain(err error) error {
	var wrongOption *transport.OptionError
	if errors.As(err, &wrongOption) {
		source, ok := s.sources[KeySet+"."+wrongOption.Option]
		if !ok {
			source = "--" + KeySet
		}
		return &Error{Source: source, Problem: wrongOption.Error(), Err: err}
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		if source, ok := s.sources[wrong.Option]; ok && source != "--"+wrong.Option {
			return &Error{Source: source, Problem: wrong.Problem, Err: err}
		}
		return wrong
	}
	if errors.Is(err, transport.ErrTooLarge) {
		// A transport refuses to open for payloads that it could never send.
		return &Error{Source: s.sources["value-size"], Problem: err.Error() + "; use smaller values", Err: err}
	}
	return err
}
