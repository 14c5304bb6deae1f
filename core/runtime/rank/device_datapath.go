package rank

import (
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// serve answers a request whose value stays in device memory, and remembers where. It is
// not called with payloads that are whole.
func (l *deviceLog) serve(store *kv.Store, e *transport.Event, header *[kv.HeaderSize]byte) (response []byte, outcome kv.Outcome) {
	response, outcome = store.ServeHead(e.Payload, e.Size, header)
	if outcome == kv.OutcomePut {
		v := &l.list[l.count%mostInspected]
		l.count++
		v.place, v.peer, v.size = e.DeviceOffset, e.Peer, int32(e.Size)
		copy(v.head[:], e.Payload)
	}
	return response, outcome
}
