package record

import "transportbench/core/transport"

// RankSetup is what a rank's setup took, up to its first window. Times are in nanoseconds.
type RankSetup struct {
	// OpenNS is the time to open the transport, and WorkersNS that to make its workers, one after
	// the other: devices, queue pairs, sockets and their memory.
	OpenNS    uint64 `json:"open_ns" bound:"<=exact"`
	WorkersNS uint64 `json:"workers_ns" bound:"<=exact"`
	// RegisterNS is the part of both that registered RegisteredBytes of memory with a device.
	RegisteredBytes uint64 `json:"registered_bytes,omitempty" bound:"<=exact"`
	RegisterNS      uint64 `json:"register_ns,omitempty" bound:"<=open_ns+workers_ns+connect_ns"`
	// Connections counts this rank's sides of connections. ConnectNS is the sum of the calls that
	// made them, ConnectMaxNS the longest, and ConnectAllNS the time until the rank had made all,
	// each polling thread its own.
	Connections  uint64 `json:"connections" bound:"<=connect_ns"`
	ConnectNS    uint64 `json:"connect_ns" bound:"<=exact"`
	ConnectMaxNS uint64 `json:"connect_max_ns" bound:"<=connect_ns"`
	ConnectAllNS uint64 `json:"connect_all_ns" bound:"<=exact"`
	// FirstCallNS is the median of the first calls of this rank's clients on their connections,
	// which the warm-up makes one at a time; FirstCallMaxNS is the longest. Without a warm-up, and
	// for clients of mesh-proxied, which call no transport, FirstCalls is 0.
	FirstCalls     uint64 `json:"first_calls,omitempty" bound:"<=connections"`
	FirstCallNS    uint64 `json:"first_call_ns,omitempty" bound:"<=first_call_max_ns"`
	FirstCallMaxNS uint64 `json:"first_call_max_ns,omitempty" bound:"<=exact"`
	// Paths are what carries the bytes of this rank's workers, as the transport states it and the
	// kernel completes it. It is empty if the transport does not state it.
	Paths []transport.Path `json:"paths,omitempty" bound:"<=1024"`
}

// ReadRegistrations sets what a transport registered, if it counts that.
func (s *RankSetup) ReadRegistrations(of transport.Transport) {
	if reader, ok := of.(transport.StatsReader); ok {
		stats := reader.ReadStats(nil)
		s.RegisteredBytes = transport.StatValue(stats, transport.StatRegisteredBytes)
		s.RegisterNS = transport.StatValue(stats, transport.StatRegisterTime)
	}
}
