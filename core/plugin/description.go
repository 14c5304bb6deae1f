package plugin

import (
	"encoding/json"
	"runtime"

	"transportbench/core"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// ProtocolVersion is the version of the control protocol that this build
// speaks.
const ProtocolVersion = wire.ProtocolVersion

// Description is what a plugin says of itself before it touches hardware.
type Description struct {
	ProtocolVersion int            `json:"protocol_version"`
	Info            transport.Info `json:"info"`
	// RuntimeDigest identifies the measured runtime that the plugin links;
	// see core.RuntimeDigest.
	RuntimeDigest string `json:"runtime_digest"`
	// Version is the runtime's; the transport's own is Info.Version.
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Arch     string `json:"arch"`
}

// Describe returns what this binary says of driver.
func Describe(driver transport.Driver) Description {
	return Description{
		ProtocolVersion: ProtocolVersion,
		Info:            driver.Info(),
		RuntimeDigest:   core.RuntimeDigest(),
		Version:         core.Version,
		Revision:        core.BuildRevision(),
		Go:              runtime.Version(),
		Arch:            runtime.GOARCH,
	}
}

// json returns d in one line. A driver's Info is strings, numbers and booleans,
// which always have a JSON form.
func (d Description) json() []byte {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return data
}

// EnvReattach is the variable in which a host finds the plugins to connect to
// instead of starting any: a JSON list of [Reattach], one for each rank.
const EnvReattach = "TRANSPORTBENCH_REATTACH"

// Reattach says how to reach a plugin that runs already.
type Reattach struct {
	Transport       string `json:"transport"`
	ProtocolVersion int    `json:"protocol_version"`
	PID             int    `json:"pid"`
	Network         string `json:"network"` // "unix" or "tcp"
	Address         string `json:"address"`
}
