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

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/lab/experiment/trace"
)

// FindProfile returns the built-in profile with this name, or reads the file
// of this name if it has a slash or ends in .yaml, .yml, .toml or .json. A
// profile from a file is named after the file, ending included, so results do
// not show it as a built-in one.
func FindProfile(name string) (config.Profile, error) {
	extensions := []string{".yaml", ".yml", ".toml", ".json"}
	if !strings.Contains(name, "/") && !slices.Contains(extensions, filepath.Ext(name)) {
		p, err := config.ProfileByName(name)
		var unknown *config.Error
		if errors.As(err, &unknown) && !strings.Contains(unknown.Problem, "did you mean") {
			err = &config.Error{Option: unknown.Option, Problem: unknown.Problem +
				"; the name of a file ends in .yaml, .toml or .json"}
		}
		return p, err
	}
	p := config.Profile{Name: filepath.Base(name), Summary: "from the file " + name, Path: name}
	known := slices.DeleteFunc(config.Names(), func(name string) bool { return name == keyProfile })
	values, err := readKeys(name, keyProfile, known)
	if err == nil {
		p.Set, err = texts(values, p.Source)
	}
	return p, err
}

// Traces are the traces that the command replays. Each command has its own.
var Traces = trace.NewCache(nil)

// Profiles returns the layer of the profile that the others choose, built-in or from a file. It
// also reads the files that options name.
func Profiles() config.Layer {
	return config.Layer{Profile: FindProfile, ReadFile: files.ReadArgument,
		Trace: func(c *config.Config) (*config.Replay, error) { return Traces.Prepare(c) }}
}

// ProfileConfig applies a profile to the defaults. Its error names the wrong option.
func ProfileConfig(p config.Profile) (config.Config, error) {
	c, _, err := config.Resolve(config.Layer{Profile: func(string) (config.Profile, error) {
		return p,
			nil
	}, ReadFile: files.ReadArgument})
	return c, err
}

// WriteProfile writes a profile as a file to edit, with the help of every
// option. Options that the profile does not set follow as comments with their
// values.
func WriteProfile(w io.Writer, p config.Profile) error {
	c, err := ProfileConfig(p)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out,
		"# %s: %s\n#\n# To make your own profile, edit this file and use --profile FILE.yaml.\n",
		p.Name, p.Summary)
	for _, f := range config.Fields() {
		if _, ok := p.Set[f.Name]; ok {
			fmt.Fprintf(out, "\n# %s\n%s: %s\n", f.Help, f.Name, yamlScalar(f.Show(&c)))
		}
	}
	fmt.Fprint(out, "\n# The profile does not set the following options.\n")
	for _, f := range config.Fields() {
		if _, ok := p.Set[f.Name]; !ok && f.Name != keyProfile {
			fmt.Fprintf(out, "\n# %s\n# %s: %s\n", f.Help, f.Name, yamlScalar(f.Show(&c)))
		}
	}
	return out.Flush()
}

// yamlScalar quotes anything but a word or a number.
func yamlScalar(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			r == '.' || r == '-'
	}
	if text != "" && strings.TrimFunc(text, plain) == "" && !strings.HasPrefix(text, "-") {
		return text
	}
	return strconv.Quote(text)
}
