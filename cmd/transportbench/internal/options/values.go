package options

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"transportbench/core/base/config"
)

// IsOption says whether name is an option of every run, rather than of a
// transport's own or of the command.
func IsOption(name string) bool {
	return slices.ContainsFunc(configOptions, func(o option) bool { return o.name == name })
}

// Names are the options of every run.
func Names() []string {
	var names []string
	for _, o := range configOptions {
		names = append(names, o.name)
	}
	return names
}

// Build makes a configuration of values as flags have them. What is not given
// is the profile's, which may be among them, else everybody's default: no
// variable and no file has a say. Whatever is wrong is an [*Error] or a
// [*config.Error].
func Build(values map[string]string) (config.Config, error) {
	c := config.Default()
	name := c.Profile
	if given, has := values["profile"]; has {
		name = given
	}
	profile, err := config.ProfileByName(name)
	if err != nil {
		return c, err
	}
	all := maps.Clone(profile.Set)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, values)
	for _, o := range configOptions {
		text, has := all[o.name]
		if !has {
			continue
		}
		if err := o.read(&c, text); err != nil {
			return c, &Error{Source: o.name, Problem: err.Error(), Err: err}
		}
	}
	return c, c.Validate()
}

// WithoutRun is flags without those that say what is measured: a command that
// reads these itself resolves the rest.
func WithoutRun(flags *pflag.FlagSet) *pflag.FlagSet {
	rest := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != KeyTransport && f.Name != KeySet && !IsOption(f.Name) {
			rest.AddFlag(f)
		}
	})
	return rest
}

// SetItems are the values of --set, as they were given.
func SetItems(flags *pflag.FlagSet) []string {
	if f := flags.Lookup(KeySet); f != nil {
		return f.Value.(*listValue).items
	}
	return nil
}
