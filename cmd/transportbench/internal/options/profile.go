package options

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cast"

	"transportbench/core/base/config"
)

// Profile is a built-in profile or one from a user's file. Its values are
// unchecked.
type Profile struct {
	config.Profile
	Path string // of the file; empty for a built-in profile
}

const keyProfile = "profile"

// FindProfile returns the built-in profile with this name, or reads the file
// of this name if it has a slash or ends in .yaml, .yml, .toml or .json. A
// profile from a file is named after the file, ending included, so results do
// not show it as a built-in one.
func FindProfile(name string) (Profile, error) {
	extensions := []string{".yaml", ".yml", ".toml", ".json"}
	if !strings.Contains(name, "/") && !slices.Contains(extensions, filepath.Ext(name)) {
		p, err := config.ProfileByName(name)
		var unknown *config.Error
		if errors.As(err, &unknown) && !strings.Contains(unknown.Problem, "did you mean") {
			err = &config.Error{Option: unknown.Option, Problem: unknown.Problem + "; the name of a file ends in .yaml, .toml or .json"}
		}
		return Profile{Profile: p}, err
	}
	p := Profile{Profile: config.Profile{Name: filepath.Base(name), Summary: "from the file " + name, Set: map[string]string{}}, Path: name}
	known := slices.DeleteFunc(Names(), func(name string) bool { return name == keyProfile })
	values, err := readKeys(name, keyProfile, known)
	if err != nil {
		return p, err
	}
	for key, value := range values {
		if p.Set[key], err = cast.ToStringE(value); err != nil {
			return p, &Error{Source: p.source(key), Problem: "not a plain value"}
		}
	}
	return p, nil
}

// source names the origin of a value of the profile.
func (p Profile) source(key string) string {
	if p.Path == "" {
		return "--" + key
	}
	return key + " in " + p.Path
}

// Config applies the profile to the defaults. Its error names the wrong option.
func (p Profile) Config() (config.Config, error) {
	c := config.Default()
	if err := read(&c, p.Set, p.source); err != nil {
		return c, err
	}
	c.Profile = p.Name
	settle(&c, func(key string) level {
		if _, ok := p.Set[key]; ok {
			return levelProfile
		}
		return levelDefault
	})
	err := c.Validate()
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return c, &Error{Source: p.source(wrong.Option), Problem: wrong.Problem, Err: err}
	}
	return c, err
}

// WriteYAML writes the profile as a file to edit, with the help of every
// option. Options that the profile does not set follow as comments with their
// values.
func (p Profile) WriteYAML(w io.Writer) error {
	c, err := p.Config()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s: %s\n#\n# To make your own profile, edit this file and use --profile FILE.yaml.\n", p.Name, p.Summary)
	for _, o := range configOptions {
		if _, ok := p.Set[o.name]; ok {
			fmt.Fprintf(out, "\n# %s\n%s: %s\n", o.help, o.name, yamlScalar(o.show(&c)))
		}
	}
	fmt.Fprint(out, "\n# The profile does not set the following options.\n")
	for _, o := range configOptions {
		if _, ok := p.Set[o.name]; !ok && o.name != keyProfile {
			fmt.Fprintf(out, "\n# %s\n# %s: %s\n", o.help, o.name, yamlScalar(o.show(&c)))
		}
	}
	return out.Flush()
}

// yamlScalar quotes anything but a word or a number.
func yamlScalar(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-'
	}
	if text != "" && strings.TrimFunc(text, plain) == "" && !strings.HasPrefix(text, "-") {
		return text
	}
	return strconv.Quote(text)
}
