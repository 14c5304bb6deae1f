// Package results has the sweeps that this directory describes, for the command to run by name.
package results

import (
	"embed"
	"slices"
	"strings"
)

//go:embed standard.yaml latency.yaml peers.yaml setup.yaml
var files embed.FS

// Sweep returns the sweep file called name, without its extension, or nil if there is none.
func Sweep(name string) []byte {
	if !slices.Contains(Names(), name) {
		return nil
	}
	text, _ := files.ReadFile(name + ".yaml")
	return text
}

// Names returns the names of the sweeps.
func Names() []string {
	var names []string
	entries, _ := files.ReadDir(".")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}
