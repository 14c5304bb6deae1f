package machine

import (
	"os"
	"path/filepath"
	"strings"
)

// Root is the directory that has proc, sys and the like: "/", or another one in tests. Its methods
// treat missing files as empty.
type Root string

// Path returns the path of a file below the root.
func (r Root) Path(elements ...string) string {
	return filepath.Join(append([]string{string(r)}, elements...)...)
}

// Text returns the content of a file without surrounding white space, or an empty string if the
// file cannot be read.
func (r Root) Text(elements ...string) string {
	content, err := os.ReadFile(r.Path(elements...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// Names returns the sorted names in a directory.
func (r Root) Names(elements ...string) []string {
	entries, err := os.ReadDir(r.Path(elements...))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

// Exists reports whether a file or directory exists.
func (r Root) Exists(elements ...string) bool {
	_, err := os.Stat(r.Path(elements...))
	return err == nil
}

// cpuInfo returns the fields of the first processor in /proc/cpuinfo.
func (r Root) cpuInfo() map[string]string {
	first, _, _ := strings.Cut(r.Text("proc/cpuinfo"), "\n\n")
	return fields(first)
}

// fields parses lines of the form "name : value".
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found {
			m[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return m
}
