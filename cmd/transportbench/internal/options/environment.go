package options

import (
	"slices"
	"strings"

	"transportbench/core/transport"
)

const prefix = "TRANSPORTBENCH_"

// otherVariables belong to the plugin host, to plugins and to tests.
var otherVariables = []string{
	prefix + "PLUGIN_PATH",
	prefix + "REATTACH",
	prefix + "LOG_LEVEL",
	prefix + "FORBID_SKIPS",
}

// variable returns the environment variable of a key.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// keys returns every key in the order of the help.
func keys() []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.name)
	}
	for _, o := range configOptions {
		all = append(all, o.name)
	}
	return all
}

// checkEnvironment reports a variable that looks like ours and is not.
func checkEnvironment(environ []string) error {
	known := slices.Clone(otherVariables)
	for _, key := range keys() {
		known = append(known, variable(key))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, prefix) && !slices.Contains(known, name) {
			return &Error{Source: name, Problem: "unknown variable" + transport.SuggestionFor(name, known)}
		}
	}
	return nil
}
