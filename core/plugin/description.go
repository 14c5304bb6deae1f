package plugin

import (
	"encoding/json"
	"runtime"
	"strings"

	"transportbench/core"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// ProtocolVersion is the version of the control protocol of this build.
const ProtocolVersion = wire.ProtocolVersion

// Description describes a plugin. A plugin answers `describe` with it before it touches hardware.
type Description struct {
	ProtocolVersion int            `json:"protocol_version"`
	Info            transport.Info `json:"info"`
	// RuntimeDigest identifies the measured runtime that the plugin links; see
	// core.RuntimeDigest.
	RuntimeDigest string `json:"runtime_digest"`
	// Sources identifies the sources of the transport itself; empty if the build did not give it.
	Sources string `json:"sources,omitempty"`
	// Version is the version of the runtime; Info.Version is that of the transport.
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Arch     string `json:"arch"`
	// ProbeKinds is always set. Without it, hosts of 0.9 and before ask only for the floor.
	ProbeKinds bool `json:"probe_kinds"`
	// Microbenchmarks are the names of the driver's; plugins of 0.6 and before do not list theirs.
	Microbenchmarks []string `json:"microbenchmarks,omitempty"`
}

// sources is set by the linker to the digests of all plugins in this repository, as the program
// core/plugin/sources prints them: NAME=DIGEST,...
var sources string

func sourcesOf(name string) string {
	for part := range strings.SplitSeq(sources, ",") {
		if digest, found := strings.CutPrefix(part, name+"="); found {
			return digest
		}
	}
	return ""
}

// Describe returns the description of driver in this binary.
func Describe(driver transport.Driver) Description {
	d := Description{
		ProtocolVersion: ProtocolVersion,
		Info:            driver.Info(),
		RuntimeDigest:   core.RuntimeDigest(),
		Version:         core.Version,
		Revision:        core.BuildRevision(),
		Go:              runtime.Version(),
		Arch:            runtime.GOARCH,
		ProbeKinds:      true,
	}
	d.Sources = sourcesOf(d.Info.Name)
	if m, ok := driver.(transport.Microbenchmarker); ok {
		d.Microbenchmarks = m.Microbenchmarks()
	}
	return d
}

// json returns d as one line of JSON. Info has only strings, numbers and booleans, so encoding
// cannot fail.
func (d Description) json() []byte {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return data
}

// EnvReattach is the variable with running plugins, as a JSON list of [Reattach] in the order of
// ranks. A host connects to them instead of starting processes.
const EnvReattach = "TRANSPORTBENCH_REATTACH"

// Reattach is the address of a running plugin.
type Reattach struct {
	Transport       string `json:"transport"`
	ProtocolVersion int    `json:"protocol_version"`
	PID             int    `json:"pid"`
	Network         string `json:"network"` // "unix" or "tcp"
	Address         string `json:"address"`
}
