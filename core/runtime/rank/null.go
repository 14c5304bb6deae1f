package rank

import (
	"context"
	"encoding/binary"

	"transportbench/core/base/config"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// nullWorker completes every call when it is posted, with the response that a
// store would give: what is left of a run is the harness.
type nullWorker struct {
	stride  int
	entries []byte // the response to a GET of each key, a stride apart
	lengths []int  // of the entries
	ready   []transport.Event
}

var _ transport.Worker = (*nullWorker)(nil)

func newNullWorker(cfg config.Config) (*nullWorker, error) {
	w := &nullWorker{
		stride: cfg.LargestMessage(),
		ready:  make([]transport.Event, 0, cfg.InFlight),
	}
	store, err := kv.NewStore(cfg.Keys, cfg.ValueSize.Max())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var header [kv.HeaderSize]byte
	var request [kv.HeaderSize]byte
	w.entries = make([]byte, cfg.Keys*w.stride)
	sizes := workload.NewSizes(cfg.ValueSize)
	for key := range uint64(cfg.Keys) {
		if err := store.Fill(key, sizes.At(key)); err != nil {
			return nil, err
		}
		entry, _ := store.Serve(kv.EncodeGet(request[:], key), &header)
		copy(w.entries[int(key)*w.stride:], entry)
		w.lengths = append(w.lengths, len(entry))
	}
	return w, nil
}

func (w *nullWorker) entry(key uint64) []byte {
	at := int(key) * w.stride
	return w.entries[at : at+w.lengths[key]]
}

func (w *nullWorker) Address() []byte { return nil }

func (w *nullWorker) Connect(context.Context, transport.PeerID, []byte) error { return nil }

func (w *nullWorker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		// The key stands above the lowest byte, which says what is asked for.
		response := w.entry(binary.LittleEndian.Uint64(op.Payload) >> 8)
		if !kv.IsGet(op.Payload) { // all others are answered by a header
			response = response[:kv.HeaderSize]
		}
		w.ready = w.ready[:len(w.ready)+1]
		e := &w.ready[len(w.ready)-1]
		e.Kind = transport.EventResponse
		e.Peer = op.Peer
		e.Token = op.Token
		e.Payload = response
		e.Size = len(response)
	}
	return len(ops), nil
}

func (w *nullWorker) Flush() error { return nil }

func (w *nullWorker) Poll(events []transport.Event) (int, error) {
	n := copy(events, w.ready)
	w.ready = w.ready[:copy(w.ready, w.ready[n:])]
	return n, nil
}

func (w *nullWorker) Close() error { return nil }
