package tcpx

import (
	"encoding/binary"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

// Values of the option fault: the four mistakes in the document that this transport is
// modelled on, and early-send, made on purpose to see that each is caught.
const (
	faultNone = "none"
	// streams made per request; closing the unpacker fails
	faultFreshStreams = bounce.FreshStreams
	// posts beyond the window; the 17th request is refused
	faultNoWindow = "no-window"
	// bounce pages given back too early; bytes are wrong
	faultEarlyConsume = bounce.EarlyConsume
	// requests sent before their copies from the GPU end; bytes are wrong
	faultEarlySend = bounce.EarlySend
	// the same tag for all requests; the receiver refuses them
	faultOneTag = "one-tag"
)

var faultOption = transport.Option{
	Name: "fault", Type: transport.TypeString, Default: faultNone,
	Allowed: []string{faultNone, faultFreshStreams, faultNoWindow, faultEarlyConsume,
		faultEarlySend, faultOneTag},
	Help: "a mistake made on purpose, to see it caught: streams and events made per chunk " +
		"(mode gpu), a 17th request, bounce memory given back early (mode gpu), requests sent " +
		"before the GPU has copied them (send-memory=device), one tag for all",
}

// applyFault puts a fault around the product: the GPU's are options of its unpacker, and
// these two need no code on the data path.
func (s *settings) applyFault() {
	switch s.fault {
	case faultNoWindow:
		s.sendWindow = requests + 1
	case faultOneTag:
		s.sendControl = sendOneTag
	}
}

// checkFault refuses a fault that nothing in the mode can make.
func (s *settings) checkFault() error {
	needs := ""
	switch {
	case (s.fault == faultFreshStreams || s.fault == faultEarlyConsume) && !s.memory.OnGPU():
		needs = "a GPU that unpacks, as with mode=gpu"
	case s.fault == faultEarlySend && !s.memory.DeviceSend:
		needs = "values in the GPU's memory; use mode=gpu and send-memory=device"
	default:
		return nil
	}
	return refuse("fault", "%s needs %s, and this is mode=%s with unpack=%s", s.fault, needs,
		s.memory.Mode(), s.memory.Unpack)
}

// oneTag is the tag of every request under the fault one-tag.
const oneTag = 99

// sendOneTag is [sock.SendBytes] for control sockets, but it changes the tags of chunks.
// What waits to be sent ends with a whole record; the first may be sent in part already.
func sendOneTag(fd int, b []byte) (int, error) {
	for end := len(b); end >= conn.RecordSize; end -= conn.RecordSize {
		if r := b[end-conn.RecordSize : end]; conn.IsChunk(r) {
			binary.LittleEndian.PutUint64(r[conn.RecordTag:], oneTag)
		}
	}
	return sock.SendBytes(fd, b)
}
