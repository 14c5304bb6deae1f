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

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/experiment"
)

// file is the content of a configuration file.
type file struct {
	path   string            // empty without a file
	values map[string]string // without KeySet
	set    map[string]string
}

// readFile reads the file at path. If path is empty, it reads the user's own
// file if that exists.
func readFile(path string) (*file, error) {
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return new(file), nil
		}
		path = filepath.Join(dir, "transportbench", "config.yaml")
		if _, err := os.Stat(path); err != nil {
			return new(file), nil
		}
	}
	values, err := readKeys(path, KeyConfig, keys())
	if err != nil {
		return nil, err
	}
	if _, has := values[KeyConfig]; has {
		return nil, &config.SourceError{Source: path,
			Problem: "a configuration file cannot name another; remove config"}
	}
	f := &file{path: path, set: map[string]string{}}
	if table, has := values[KeySet]; has {
		delete(values, KeySet)
		if err := f.readSet(table); err != nil {
			return nil, err
		}
	}
	if list, ok := values[KeyTransport].([]any); ok {
		names, err := cast.ToStringSliceE(list)
		if err != nil {
			return nil, &config.SourceError{Source: f.source(KeyTransport),
				Problem: "not a list of names"}
		}
		values[KeyTransport] = strings.Join(names, ",")
	}
	f.values, err = texts(values, f.source)
	return f, err
}

// source names the origin of a value of the file.
func (f *file) source(key string) string { return key + " in " + f.path }

// texts returns values as text; source names the origin of one.
func texts(values map[string]any, source func(key string) string) (map[string]string, error) {
	list := make(map[string]string, len(values))
	for key, value := range values {
		var err error
		if list[key], err = cast.ToStringE(value); err != nil {
			return nil, &config.SourceError{Source: source(key), Problem: "not a plain value"}
		}
	}
	return list, nil
}

// maxFile is the size in bytes of the largest configuration file.
const maxFile = 1 << 20

// readKeys reads the file that an option names and rejects unknown keys.
func readKeys(path, option string, known []string) (map[string]any, error) {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	var values map[string]any
	var err error = viper.UnsupportedConfigError(format)
	if slices.Contains(viper.SupportedExts, format) {
		var text []byte
		if text, err = files.ReadArgument(path, maxFile); err == nil {
			values, err = experiment.ReadSettings(format, text)
		}
	}
	if err != nil {
		return nil, &config.SourceError{Source: "--" + option, Problem: fileProblem(path, err),
			Err: err}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			return nil, &config.SourceError{Source: path, Problem: fmt.Sprintf("unknown key %q%s",
				key, suggest.For(key, known))}
		}
	}
	return values, nil
}

func (f *file) readSet(value any) error {
	source := f.source(KeySet)
	table, ok := value.(map[string]any)
	if !ok {
		return &config.SourceError{Source: source, Problem: "not a table of keys and values"}
	}
	for key, value := range table {
		text, err := cast.ToStringE(value)
		if err != nil {
			return &config.SourceError{Source: source,
				Problem: fmt.Sprintf("%q is not a plain value", key)}
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
	}
	return fmt.Sprintf("%s: %v", path, err)
}
