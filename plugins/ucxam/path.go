package ucxam

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

// mostHeaders is the most bytes that UCX adds to an active message: its own header, ours, and the
// messages of a rendezvous.
const mostHeaders = 256

// ReadPaths implements [transport.PathReader], from UCX's description of each connection.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		path := transport.Path{Carrier: cmp.Or(p.lane.medium(), p.lane.transport), Overhead: mostHeaders, Facts: descriptionOf(p.info)}
		if path.Carrier == transport.MediumVerbs {
			device, port, _ := strings.Cut(p.lane.device, ":")
			path.Device = device
			path.Port, _ = strconv.Atoi(port)
		}
		dst = append(dst, path)
	}
	return dst
}

var (
	// anyLane matches a lane as [laneLine] does, whatever it carries.
	anyLane = regexp.MustCompile(`lane\[\d+\]:\s+\d+:([a-z0-9_]+)/(\S+?)\.\d+\s.*sysdev\[\d+\]\s*(.*)`)
	// threshold matches the protocols of an operation by the size of its messages:
	//
	//	#  tag_send: 0..<egr/short>..92..<egr/bcopy>..8248..<egr/zcopy>..262144..<rndv>..(inf)
	threshold = regexp.MustCompile(`#\s+([a-z_]+): (0\.\.<.*)`)
)

// descriptionOf returns the lanes, and the protocols by size, in UCX's description of a connection.
func descriptionOf(info string) map[string]string {
	facts := map[string]string{}
	var lanes []string
	for line := range strings.Lines(info) {
		line = strings.TrimRight(line, "\n")
		if m := anyLane.FindStringSubmatch(line); m != nil {
			lanes = append(lanes, m[1]+"/"+m[2]+" for "+strings.TrimSpace(m[3]))
		} else if m := threshold.FindStringSubmatch(line); m != nil {
			facts["protocols_"+m[1]] = m[2]
		}
	}
	facts["lanes"] = strings.Join(lanes, "; ")
	return facts
}
