package ucxam

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

// maxHeaders is the most bytes that UCX adds to an active message: its own header, ours, and the
// messages of a rendezvous.
const maxHeaders = 256

// Silence implements [transport.PathReader]. UCX does not tell.
func (w *worker) Silence(transport.PeerID) error { return nil }

// ReadPaths implements [transport.PathReader], from UCX's description of each connection. Large
// messages may be striped over several ports, each of which is a path.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	for _, p := range w.Peers.ByID {
		if p == nil {
			continue
		}
		own := p.Own.(*peer)
		path := transport.Path{Carrier: cmp.Or(own.lane.medium(), own.lane.transport),
			Overhead: maxHeaders, Facts: descriptionOf(own.info)}
		if path.Carrier != transport.MediumVerbs {
			dst = append(dst, path)
			continue
		}
		for _, device := range portsOf(own.lane, own.info) {
			name, port, _ := strings.Cut(device, ":")
			path.Device = name
			path.Port, _ = strconv.Atoi(port)
			dst = append(dst, path)
		}
	}
	return dst
}

// portsOf returns the ports ("mlx5_0:1") over which a connection with that lane for active messages
// carries data: its own first, then those of further RDMA lanes. A lane for wire-up only carries
// none.
func portsOf(messages lane, info string) []string {
	ports := []string{messages.device}
	for line := range strings.Lines(info) {
		m := anyLane.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		l, carries := (lane{transport: m[1], device: m[2]}), carriesData.MatchString(m[3])
		if carries && l.medium() == transport.MediumVerbs && !slices.Contains(ports, l.device) {
			ports = append(ports, l.device)
		}
	}
	return ports
}

var (
	// anyLane matches a lane as [laneLine] does, whatever it carries.
	anyLane = regexp.MustCompile(
		`lane\[\d+\]:\s+\d+:([a-z0-9_]+)/(\S+?)\.\d+\s.*sysdev\[\d+\]\s*(.*)`)
	// carriesData matches the uses of a lane that carry data, as in "am am_bw#0 rma_bw#1 wireup".
	carriesData = regexp.MustCompile(`\b(am|rma|amo|tag|rkey_ptr)(_bw)?\b`)
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
