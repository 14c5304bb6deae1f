package ucxam

import (
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"

	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// prefix begins the names of UCX's variables.
const prefix = "UCX_"

// sharedMemory are transports that UCX 1.13 silently omits if it must report lost peers,
// unless its variable NAME_ERROR_HANDLING is y.
var sharedMemory = []string{"posix", "sysv"}

// resolveVariables collects UCX's variables. An option overrides the environment, and the
// environment overrides the transport's defaults. If ranks are on several machines, the default
// leaves out shared memory, because the trial connection within one process would choose it. On one
// machine the default leaves out TCP, unless a device is named: UCX listens on a port of each
// interface, even an unused one, and a stranger who connects can crash the process or write to its
// memory.
func (s *settings) resolveVariables(o transport.Values, environ []string, crosses bool) error {
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
		if _, ok := known[name]; !ok {
			return &transport.OptionError{Option: optionVariables,
				Problem: fmt.Sprintf("UCX %s has no variable %s%s%s",
					ucp.Version(), prefix, name,
					suggest.For(name, slices.Sorted(maps.Keys(known))))}
		}
		if option, ok := ownOptions[name]; ok && o.String(option) != "" {
			return &transport.OptionError{Option: option,
				Problem: fmt.Sprintf("is given, and %s%s as well in %q: give one of them", prefix,
					name, optionVariables)}
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
	switch {
	case s.variables["TLS"] != "":
	case crosses:
		check("TLS", "^sm")
	case s.variables["NET_DEVICES"] == "":
		check("TLS", "^tcp")
	}
	if _, ok := s.variables["KEEPALIVE_INTERVAL"]; !ok && s.worker.PeerErrors {
		check("KEEPALIVE_INTERVAL", fmt.Sprintf("%dus", o.Duration(optionKeepalive).Microseconds()))
	}
	s.tls = s.variables["TLS"]
	// By default UCX 1.13 progresses an interface only once it is used. While it makes a worker, it
	// asserts that nothing arrives at such an interface, so a byte from a stranger ends the process
	// (ucp_worker_iface_check_events). A single interface is always used, so turning this off costs
	// nothing.
	if _, ok := s.variables["ADAPTIVE_PROGRESS"]; !ok && s.tcpAlone() {
		set("ADAPTIVE_PROGRESS", "n")
	}
	for _, transport := range sharedMemory {
		if !mayUse(s.tls, transport) {
			continue // UCX warns about unused variables
		}
		for suffix, value := range map[string]string{"ERROR_HANDLING": "y",
			"FIFO_SIZE": fmt.Sprint(s.fifo())} {
			name := strings.ToUpper(transport) + "_" + suffix
			if _, ok := s.variables[name]; !ok {
				set(name, value)
			}
		}
	}
	// The value differs between ranks, so it is neither reported nor part of layout.
	if _, ok := s.variables["POSIX_DIR"]; !ok && mayUse(s.tls, "posix") &&
		shm.Dir() != shm.NamedDir {
		s.others = append(s.others, ucp.Setting{Name: "POSIX_DIR", Value: shm.Dir()})
	}
	return nil
}

// tcpAlone reports whether UCX may use nothing but TCP on one named device.
func (s *settings) tcpAlone() bool {
	names, all := requested(s.tls)
	other := func(name string) bool { return name != "tcp" && name != "self" }
	devices := s.variables["NET_DEVICES"]
	return !all && slices.Contains(names, "tcp") && !slices.ContainsFunc(names, other) &&
		devices != "" && devices != "all" && !strings.ContainsAny(devices, "^,")
}

// fifo returns the length of a worker's queue in shared memory. It fits the messages that a few
// peers may have in flight; any other message waits at its sender until the sender polls. The
// length depends only on what is equal on all ranks, because UCX assumes without a check that the
// peer's queue is as long as its own.
func (s *settings) fifo() int {
	const minimum, maximum, peers = 64, 4096, 4 // each entry takes 8 KiB
	return min(max(pow2.Ceil(2*peers*s.worker.Window), minimum), maximum)
}

// layout returns a checksum of the variables that must be equal on both sides of a
// connection in shared memory.
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

// ownOptions maps variables to the options that set them unless they are empty.
var ownOptions = map[string]string{
	"TLS":         optionTLS,
	"NET_DEVICES": optionDevices,
	"RNDV_THRESH": optionThreshold,
}

// optionOf returns the option that sets a variable.
func optionOf(variable string) string {
	if option, ok := ownOptions[variable]; ok {
		return option
	}
	if variable == "KEEPALIVE_INTERVAL" {
		return optionKeepalive
	}
	return optionVariables
}

// parseVariables parses UCX_A=1,UCX_B=x,y. A piece that does not begin a variable belongs to
// the value before it.
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
			return nil, &transport.OptionError{Option: optionVariables, Problem: prefix + variable +
				" has no value"}
		}
	}
	return given, nil
}

// inheritedVariables returns UCX's variables in an environment, without the prefix.
func inheritedVariables(environ []string) map[string]string {
	found := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, prefix) {
			found[strings.TrimPrefix(name, prefix)] = value
		}
	}
	return found
}

// knownVariables returns all variables of the loaded UCX, with their values.
var knownVariables = sync.OnceValue(func() map[string]string {
	return inheritedVariables(strings.Split(ucp.KnownVariables(), "\n"))
})
