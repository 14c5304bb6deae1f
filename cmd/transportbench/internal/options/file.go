package options

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cast"
	"github.com/spf13/viper"

	"transportbench/core/transport"
)

// file is what a configuration file says.
type file struct {
	path   string         // empty where there is no file
	values map[string]any // without KeySet
	set    map[string]string
}

// readFile reads the file at path, or where path is empty the user's own if
// there is one.
func readFile(path string) (*file, error) {
	f := &file{path: path, values: map[string]any{}, set: map[string]string{}}
	if path == "" {
		f.path = userFile()
		if _, err := os.Stat(f.path); err != nil {
			f.path = ""
			return f, nil
		}
	}
	settings, err := readKeys(f.path, KeyConfig, keys())
	if err != nil {
		return nil, err
	}
	for key, value := range settings {
		switch {
		case key == KeyConfig:
			return nil, &Error{Source: f.path, Problem: "a configuration file cannot name another"}
		case key != KeySet:
			f.values[key] = value
		default:
			if err := f.readSet(value); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// readKeys reads a file that an option names, and refuses keys that are not
// known.
func readKeys(path, option string, known []string) (map[string]any, error) {
	v := viper.New()
	v.SetConfigFile(path)
	if err := v.ReadInConfig(); err != nil {
		return nil, &Error{Source: "--" + option, Problem: fileProblem(path, err), Err: err}
	}
	settings := v.AllSettings()
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if !slices.Contains(known, key) {
			return nil, &Error{Source: path,
				Problem: fmt.Sprintf("unknown key %q%s", key, transport.SuggestionFor(key, known))}
		}
	}
	return settings, nil
}

func (f *file) readSet(value any) error {
	source := KeySet + " in " + f.path
	table, ok := value.(map[string]any)
	if !ok {
		return &Error{Source: source, Problem: "is not a table of keys and values"}
	}
	for key, value := range table {
		text, err := cast.ToStringE(value)
		if err != nil {
			return &Error{Source: source, Problem: fmt.Sprintf("the value of %q is not a plain value", key)}
		}
		f.set[key] = text
	}
	return nil
}

func fileProblem(path string, err error) string {
	var unsupported viper.UnsupportedConfigError
	switch {
	case errors.As(err, &unsupported):
		return fmt.Sprintf("%s: the name must end in .yaml, .toml or .json", path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s: no such file", path)
	default:
		// Parsers answer in several lines; the first has the place.
		problem, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Sprintf("%s: %s", path, problem)
	}
}

// userFile is where a user's own configuration file would be.
func userFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "transportbench", "config.yaml")
}
