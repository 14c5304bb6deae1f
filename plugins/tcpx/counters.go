package tcpx

import (
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
)

var _ interface {
	transport.StatsReader
	transport.Recorder
	transport.PathReader
} = (*worker)(nil)

// conns returns all connections.
func (w *worker) conns() (list []*conn.Conn) {
	for _, p := range w.peers.ByID {
		if p != nil {
			list = append(list, p.conn)
		}
	}
	return list
}

// work returns what the worker and its threads have done for the messages.
func (w *worker) work(conns []*conn.Conn) control.Work {
	k, s := &w.counters, w.settings
	sum := k.Work(conns)
	if !s.memory.ByNIC() {
		sum.KernelBytes += k.ReceivedBytes
	}
	if s.memory.Unpack == bounce.UnpackCPU {
		sum.Copies += k.Descriptors
		sum.CopiedBytes += k.UnpackedBytes
		sum.HelperThreads += uint64(s.memory.Workers)
	}
	return sum
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	conns := w.conns()
	dst = w.work(conns).Append(dst)
	dst = w.counters.Append(dst, conns, w.connector.Acceptor.Strangers)
	for _, part := range []any{bounce.Inner(w.unpacker.Unpacker), w.memory} {
		if c, counts := part.(bounce.Counter); counts {
			dst = c.Counters(dst)
		}
	}
	return w.counters.AppendTimes(dst)
}

// StartRecording implements [transport.Recorder].
func (w *worker) StartRecording(r transport.Recording) {
	connections := 0
	for _, p := range w.peers.ByID {
		if p != nil && p.State != dial.Lost {
			connections++
		}
	}
	w.counters.StartRecording(r, connections)
}

// ReadRecording implements [transport.Recorder].
func (w *worker) ReadRecording() transport.Recorded { return w.counters.ReadRecording() }

// maxHeaders is the most bytes that a message takes besides its payload: its header, and a record
// on the control socket for each of its steps.
const maxHeaders = 8 * conn.RecordSize

// ReadPaths implements [transport.PathReader]. The kernel knows both ends of the connections.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	p := transport.Path{Carrier: transport.MediumTCP, Overhead: maxHeaders,
		Facts: map[string]string{"mode": w.settings.memory.Mode()}}
	if w.settings.memory.ByNIC() {
		p.Facts["device_memory_of"] = w.settings.memory.NIC()
	}
	return append(dst, p)
}
