package tcpx

import (
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/gpu"
)

// Values of the option fault: the four errors of the document that this transport comes
// from, each of which is made on purpose, to see that it is caught.
const (
	faultNone         = "none"
	faultFreshStreams = string(gpu.FreshStreams) // resources made per chunk; closing the unpacker fails
	faultNoWindow     = "no-window"              // posts without regard to the window; the 17th is refused
	faultEarlyConsume = string(gpu.EarlyConsume) // bounce memory given back before the kernel is done; bytes are wrong
	faultOneTag       = "one-tag"                // every request has the same tag; the receiver refuses the second
)

// theOneTag is the tag that every chunk had there.
const theOneTag = 99

var faultOption = transport.Option{
	Name: "fault", Type: transport.TypeString, Default: faultNone,
	Allowed: []string{faultNone, faultFreshStreams, faultNoWindow, faultEarlyConsume, faultOneTag},
	Help:    "an error made on purpose, to see it caught: streams and events made per chunk (mode gpu), a 17th request, bounce memory given back early (mode gpu), one tag for all",
}
