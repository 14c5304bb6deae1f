package ucxam

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// prefix begins the names of UCX's variables.
const prefix = "UCX_"

// sharedMemory are transports that UCX 1.13 leaves out without a word where it
// has to tell of lost peers, unless its variable NAME_ERROR_HANDLING is y.
var sharedMemory = []string{"posix", "sysv"}

// resolveVariables gathers UCX's variables. What an option sets comes before
// the environment, and that before the transport's own standard.
func (s *settings) resolveVariables(o transport.Values, environ []string) error {
	given, err := parseVariables(o.String(optionVariables))
	if err != nil {
		return err
	}
	inherited := inheritedVariables(environ)
	s.variables = maps.Clone(inherited)
	set := func(name, value string) {
		s.variables[name] = value
		s.others = append(s.others, ucp.Setting{Name: name, Value: value})
	}
	known := knownVariables()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, is := known[name]; !is {
			return &transport.OptionError{Option: optionVariables, Problem: fmt.Sprintf("UCX %s has no variable %s%s%s",
				ucp.Version(), prefix, name, transport.SuggestionFor(name, slices.Sorted(maps.Keys(known))))}
		}
		if option, is := ownOptions[name]; is && o.String(option) != "" {
			return &transport.OptionError{Option: option, Problem: fmt.Sprintf("is given, and %s%s as well in %q", prefix, name, optionVariables)}
		}
		set(name, given[name])
	}
	check := func(name, value string) {
		if value != "" {
			s.variables[name] = value
			s.checked = append(s.checked, ucp.Setting{Name: name, Value: value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ownOptions)) {
		check(name, o.String(ownOptions[name]))
	}
	if _, is := s.variables["KEEPALIVE_INTERVAL"]; !is && s.worker.PeerErrors {
		check("KEEPALIVE_INTERVAL", fmt.Sprintf("%dus", o.Duration(optionKeepalive).Microseconds()))
	}
	s.tls = s.variables["TLS"]
	for _, transport := range sharedMemory {
		if !mayUse(s.tls, transport) {
			continue // UCX complains of variables that nothing reads
		}
		for suffix, value := range map[string]string{"ERROR_HANDLING": "y", "FIFO_SIZE": fmt.Sprint(s.fifo())} {
			name := strings.ToUpper(transport) + "_" + suffix
			if _, is := s.variables[name]; !is {
				set(name, value)
			}
		}
	}
	return nil
}

// fifo is the queue of a worker in shared memory. What a few peers may have
// under way fits; a message that does not waits in its sender, for as long as
// that does not poll. The number depends on what is the same for all ranks:
// UCX takes the peer's queue to be as long as its own, and does not look.
func (s *settings) fifo() int {
	const least, most, peers = 64, 4096, 4 // UCX has 8 KiB behind each entry
	return min(max(1<<bits.Len(uint(2*peers*s.worker.Window-1)), least), most)
}

// layout is a digest of the variables that both sides of a connection in shared
// memory must agree on.
func (s *settings) layout() uint32 {
	sum := crc32.New(castagnoli)
	for _, name := range slices.Sorted(maps.Keys(s.variables)) {
		for _, transport := range sharedMemory {
			if strings.HasPrefix(name, strings.ToUpper(transport)+"_") {
				fmt.Fprintf(sum, "%s=%s\n", name, s.variables[name])
			}
		}
	}
	return sum.Sum32()
}

// ownOptions are the variables that have an option of their own, which is empty
// where it leaves them alone.
var ownOptions = map[string]string{
	"TLS":         optionTLS,
	"NET_DEVICES": optionDevices,
	"RNDV_THRESH": optionThreshold,
}

// optionOf returns the option that a variable was set by.
func optionOf(variable string) string {
	if option, is := ownOptions[variable]; is {
		return option
	}
	if variable == "KEEPALIVE_INTERVAL" {
		return optionKeepalive
	}
	return optionVariables
}

// parseVariables reads UCX_A=1,UCX_B=x,y: a piece that begins no variable
// belongs to the value before it.
func parseVariables(text string) (map[string]string, error) {
	given := map[string]string{}
	last := ""
	for piece := range strings.SplitSeq(text, ",") {
		piece = strings.TrimSpace(piece)
		name, value, assigns := strings.Cut(piece, "=")
		switch {
		case assigns && strings.HasPrefix(name, prefix) && len(name) > len(prefix):
			last = strings.TrimPrefix(name, prefix)
			given[last] = value
		case last != "":
			given[last] += "," + piece
		case piece != "":
			return nil, &transport.OptionError{Option: optionVariables,
				Problem: fmt.Sprintf("%q is not of the form UCX_NAME=value", piece)}
		}
	}
	for variable, value := range given {
		if value == "" || strings.ContainsRune(value, 0) {
			return nil, &transport.OptionError{Option: optionVariables, Problem: prefix + variable + " has no value"}
		}
	}
	return given, nil
}

// inheritedVariables are UCX's variables in an environment, without the prefix.
func inheritedVariables(environ []string) map[string]string {
	found := map[string]string{}
	for _, entry := range environ {
		if name, value, is := strings.Cut(entry, "="); is && strings.HasPrefix(name, prefix) {
			found[strings.TrimPrefix(name, prefix)] = value
		}
	}
	return found
}

// knownVariables are all that the loaded UCX has, with their values.
var knownVariables = sync.OnceValue(func() map[string]string {
	return inheritedVariables(strings.Split(ucp.KnownVariables(), "\n"))
})
