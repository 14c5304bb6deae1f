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

// Profile is a profile that is built in, or a user's own in a file. The options
// that it sets are not checked yet.
type Profile struct {
	config.Profile
	Path string // of the file; empty for one that is built in
}

const keyProfile = "profile"

// FindProfile finds a profile by its name, or reads the file that the name is:
// one with a slash, or that ends in .yaml, .yml, .toml or .json. A file's
// profile is named after it, ending included, so that a result does not show
// it as one that is built in.
func FindProfile(name string) (Profile, error) {
	extensions := []string{".yaml", ".yml", ".toml", ".json"}
	if !strings.Contains(name, "/") && !slices.Contains(extensions, filepath.Ext(name)) {
		p, err := config.ProfileByName(name)
		var unknown *config.Error
		if errors.As(err, &unknown) && !strings.Contains(unknown.Problem, "did you mean") {
			err = &config.Error{Option: unknown.Option, Problem: unknown.Problem + "; a file's name ends in .yaml, .toml or .json"}
		}
		return Profile{Profile: p}, err
	}
	p := Profile{Profile: config.Profile{Name: filepath.Base(name), Summary: "of the file " + name, Set: map[string]string{}}, Path: name}
	values, err := readKeys(name, keyProfile, profileKeys())
	if err != nil {
		return p, err
	}
	for key, value := range values {
		text, err := cast.ToStringE(value)
		if err != nil {
			return p, &Error{Source: key + " in " + name, Problem: "is not a plain value"}
		}
		p.Set[key] = text
	}
	return p, nil
}

// profileKeys are the options that a profile may set.
func profileKeys() []string {
	var names []string
	for _, o := range configOptions {
		if o.name != keyProfile {
			names = append(names, o.name)
		}
	}
	return names
}

// Config returns what a profile makes of the defaults. The error names the
// option that is wrong.
func (p Profile) Config() (config.Config, error) {
	r := &resolver{profile: p, file: &file{}}
	c := config.Default()
	for _, o := range configOptions {
		text, ok := p.Set[o.name]
		if !ok {
			continue
		}
		if err := o.read(&c, text); err != nil {
			return c, &Error{Source: r.place(o.name, levelProfile), Problem: err.Error(), Err: err}
		}
	}
	c.Profile = p.Name
	settle(&c, func(key string) int {
		if _, ok := p.Set[key]; ok {
			return levelProfile
		}
		return levelDefault
	})
	err := c.Validate()
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return c, &Error{Source: r.place(wrong.Option, levelProfile), Problem: wrong.Problem, Err: err}
	}
	return c, err
}

// WriteYAML writes a profile as a file that can be changed and given back, with
// the help of every option: those that the profile sets, then, as comments,
// what the others are with it.
func (p Profile) WriteYAML(w io.Writer) error {
	c, err := p.Config()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s: %s\n#\n# To make one of your own, change this and use --profile FILE.yaml.\n", p.Name, p.Summary)
	for _, o := range configOptions {
		if _, ok := p.Set[o.name]; ok {
			fmt.Fprintf(out, "\n# %s\n%s: %s\n", o.help, o.name, yamlScalar(o.show(&c)))
		}
	}
	fmt.Fprint(out, "\n# What follows is not set.\n")
	for _, o := range configOptions {
		if _, ok := p.Set[o.name]; !ok && o.name != keyProfile {
			fmt.Fprintf(out, "\n# %s\n# %s: %s\n", o.help, o.name, yamlScalar(o.show(&c)))
		}
	}
	return out.Flush()
}

// yamlScalar quotes what is more than a word or a number.
func yamlScalar(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-'
	}
	if text != "" && strings.TrimFunc(text, plain) == "" && !strings.HasPrefix(text, "-") {
		return text
	}
	return strconv.Quote(text)
}
