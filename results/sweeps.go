// Package results has the sweeps that this directory describes, for the command to run by name.
package results

import (
	"embed"
	"io/fs"
	"strings"
)

// Files has the sweeps, the tables of documents, and the published figures.
//
//go:embed standard.yaml latency.yaml peers.yaml setup.yaml stack.yaml curves.yaml services.yaml
//go:embed reproduce published/*.json
var Files embed.FS

// Sweep returns the sweep file called name, without its extension, or nil if there is none.
func Sweep(name string) []byte {
	text, _ := Files.ReadFile(name + ".yaml")
	return text
}

// Names returns the names of the sweeps.
func Names() (names []string) {
	for _, pattern := range []string{"*.yaml", "reproduce/*.yaml"} {
		files, _ := fs.Glob(Files, pattern)
		for _, file := range files {
			names = append(names, strings.TrimSuffix(file, ".yaml"))
		}
	}
	return names
}
