package memory

import (
	"context"
	"errors"

	"transportbench/core/transport"
)

var closeFakes = []fake{
	{name: "panics in the second Close", clause: "close/twice", says: "panicked",
		worker: func(w *fakeWorker) {
			done := make(chan struct{})
			w.close = func() error {
				close(done)
				return w.worker.Close()
			}
		}},
	{name: "refuses the second Close", clause: "close/twice", says: "Close: ",
		worker: func(w *fakeWorker) {
			w.close = func() error {
				if w.gone.Load() {
					return transport.NewOpError("memory", "close", transport.ErrClosed)
				}
				return w.worker.Close()
			}
		}},
	{name: "waits in Close for its responses", clause: "close/in-flight", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.close = func() error {
				for _, c := range w.active {
					if c.inFlight > 0 {
						w.driver.hang()
					}
				}
				return w.worker.Close()
			}
		}},
	{name: "does not close with open workers", clause: "close/transport",
		says: "Transport.Close of rank 0",
		transport: func(t *fakeTransport) {
			t.close = func() error {
				for _, w := range t.made() {
					if !w.gone.Load() {
						return errFault
					}
				}
				return t.endpoint.Close()
			}
		}},
	{name: "waits in Transport.Close for its peers", clause: "close/transport",
		says: "did not return", hangs: true,
		transport: func(t *fakeTransport) {
			t.close = func() error {
				for _, other := range t.driver.transports {
					if other != t && !other.closed {
						t.driver.hang()
					}
				}
				return t.endpoint.Close()
			}
		}},
	{name: "takes ops after Close", clause: "close/refuses", says: "Post after Close",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				if w.gone.Load() {
					return len(ops) - 1, nil
				}
				return w.worker.Post(ops)
			}
		}},
	{name: "flushes after Close", clause: "close/refuses", says: "Flush after Close",
		worker: func(w *fakeWorker) {
			w.flush = func() error {
				w.worker.Flush()
				return nil
			}
		}},
	{name: "polls nothing after Close", clause: "close/refuses", says: "Poll after Close",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				n, _ := w.worker.Poll(events)
				return n, nil
			}
		}},
	{name: "connects after Close", clause: "close/refuses", says: "Connect after Close",
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				if w.gone.Load() {
					return nil
				}
				return w.worker.Connect(ctx, peer, address)
			}
		}},
	{name: "leaves its workers open", clause: "close/transport-refuses", says: "Post after Close",
		transport: func(t *fakeTransport) { t.close = func() error { return nil } }},
	{name: "makes workers after Close", clause: "close/transport-refuses",
		says: "NewWorker after Close",
		transport: func(t *fakeTransport) {
			t.newWorker = func(index int) (transport.Worker, error) {
				w, err := t.endpoint.NewWorker(index)
				if err != nil {
					w, err = t.driver.newWorker(t.endpoint), nil
				}
				return w, err
			}
		}},
	{name: "closes all workers with one", clause: "close/one-worker", says: "closed",
		worker: func(w *fakeWorker) {
			w.close = func() error {
				for _, other := range w.transport.made() {
					other.Close()
				}
				return nil
			}
		}},
	{name: "leaks a goroutine", clause: "close/goroutines", says: "goroutines leaked",
		open: func(d *fakeDriver) error {
			go d.hang()
			return nil
		}},
	{name: "leaks a descriptor", clause: "close/descriptors", says: "descriptors leaked",
		open: func(d *fakeDriver) error {
			d.leakFile()
			return nil
		}},

	{name: "returns bare errors", clause: "errors/op-error", says: "the error of post",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				return n, errors.Unwrap(err)
			}
		}},
	{name: "names the wrong peer", clause: "errors/op-error", says: "OpError.Peer",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if err != nil {
					err = transport.NewOpError("memory", "post", err)
				}
				return n, err
			}
		}},
	{name: "leaves its name out of errors", clause: "errors/op-error", says: "OpError.Transport",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if err != nil {
					err = &transport.OpError{Transport: "ring", Op: "post", Peer: ops[n].Peer,
						Err: err}
				}
				return n, err
			}
		}},
}
