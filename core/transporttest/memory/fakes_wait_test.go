package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

var waitFakes = []fake{
	{name: "ignores its timeout", clause: "wait/timeout", says: "did not return", hangs: true,
		worker: func(w *fakeWorker) {
			w.wait = func(time.Duration) error { w.driver.hang(); return nil }
		}},
	{name: "never blocks", clause: "wait/blocks", says: "none of 100 waits",
		worker: func(w *fakeWorker) { w.wait = func(time.Duration) error { return nil } }},
	{name: "loses the wakeup between Poll and Wait", clause: "wait/arrival-before",
		says: "did not return", hangs: true,
		worker: func(w *fakeWorker) {
			w.wait = func(timeout time.Duration) error {
				select {
				case <-w.notify:
				default:
				}
				return w.blockUntilReleased(timeout)
			}
		}},
	{name: "notices only arrivals before Wait", clause: "wait/arrival-during",
		says: "did not return", hangs: true,
		worker: func(w *fakeWorker) {
			w.wait = func(timeout time.Duration) error {
				select {
				case <-w.notify:
				default:
					w.driver.hang()
				}
				return nil
			}
		}},
	{name: "drops a Wake without a Wait", clause: "wait/wake-before", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			var waiting atomic.Bool
			w.wait = func(timeout time.Duration) error {
				waiting.Store(true)
				defer waiting.Store(false)
				return w.blockUntilReleased(timeout)
			}
			w.wake = func() {
				if waiting.Load() {
					w.worker.Wake()
				}
			}
		}},
	{name: "ignores Wake", clause: "wait/wake-during", says: "was not ended by Wake", hangs: true,
		worker: func(w *fakeWorker) {
			w.wait = w.blockUntilReleased
			w.wake = func() {}
		}},
	{name: "does not notice the loss of a peer", clause: "wait/peer-lost", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.wait = w.blockUntilReleased
			w.close = func() error {
				err := w.worker.Close()
				for _, c := range w.active {
					select {
					case <-c.remote.notify:
					default:
					}
				}
				return err
			}
		}},
}

// blockUntilReleased is a correct Wait that also returns at the end of the test.
func (w *fakeWorker) blockUntilReleased(timeout time.Duration) error {
	select {
	case <-w.notify:
	case <-time.After(timeout):
	case <-w.driver.released:
	}
	return nil
}

// countWork makes ReadStats return other counts of work than the worker's.
func (w *fakeWorker) countWork(change func(*control.Work)) {
	w.readStats = func(dst []transport.Stat) []transport.Stat {
		own := w.work
		defer func() { w.work = own }()
		change(&w.work)
		return w.worker.ReadStats(dst)
	}
}

var optionalFakes = []fake{
	{name: "has a counter without help", clause: "stats/names", says: "the help of counter",
		worker: func(w *fakeWorker) {
			w.readStats = func(dst []transport.Stat) []transport.Stat {
				dst = w.worker.ReadStats(dst)
				dst[len(dst)-1].Help = ""
				return dst
			}
		}},
	{name: "renames its counters", clause: "stats/names", says: "the name of counter",
		worker: func(w *fakeWorker) {
			w.readStats = func(dst []transport.Stat) []transport.Stat {
				dst = w.worker.ReadStats(dst)
				dst[len(dst)-1].Name = fmt.Sprint(w.posted)
				return dst
			}
		}},
	{name: "drops the argument of ReadStats", clause: "stats/append",
		says: "the argument of ReadStats",
		worker: func(w *fakeWorker) {
			w.readStats = func([]transport.Stat) []transport.Stat {
				return w.worker.ReadStats(nil)
			}
		}},
	{name: "resets its counters at each reading", clause: "stats/grow",
		says: "the value of counter",
		worker: func(w *fakeWorker) {
			w.readStats = func(dst []transport.Stat) []transport.Stat {
				dst = w.worker.ReadStats(dst)
				w.posted, w.polled = 0, 0
				return dst
			}
		}},
	{name: "counts copies without their bytes", clause: "stats/work",
		says: "copied_bytes, of 40 copies",
		worker: func(w *fakeWorker) {
			w.countWork(
				func(sum *control.Work) { sum.CopiedBytes = 0 })
		}},
	{name: "counts no copies", clause: "stats/work", says: "that Post took, and has to copy",
		worker: func(w *fakeWorker) {
			w.countWork(
				func(sum *control.Work) { *sum = control.Work{} })
		}},
	{name: "counts one byte of each copy", clause: "stats/work",
		says: "that Post took, and has to copy",
		worker: func(w *fakeWorker) {
			w.countWork(
				func(sum *control.Work) { sum.CopiedBytes = sum.Copies })
		}},
	{name: "passes bytes through the kernel without a system call", clause: "stats/work",
		says: "syscalls, which copied",
		worker: func(w *fakeWorker) {
			w.countWork(
				func(sum *control.Work) { sum.KernelBytes = sum.CopiedBytes })
		}},
	{name: "makes system calls on shared memory", clause: "stats/work",
		says:       "of workers that spin on shared memory",
		properties: func(p *transport.Properties) { p.Medium = transport.MediumMemory },
		worker: func(w *fakeWorker) {
			w.countWork(func(sum *control.Work) { sum.Syscalls = sum.Copies })
		}},
	{name: "moves bytes through sockets without the kernel", clause: "stats/work",
		says:       "of a socket, which copies all that is sent",
		properties: func(p *transport.Properties) { p.Medium = transport.MediumUDP }},
	{name: "counts threads as a total", clause: "stats/work", says: "is a level",
		worker: func(w *fakeWorker) {
			w.readStats = func(dst []transport.Stat) []transport.Stat {
				dst = w.worker.ReadStats(dst)
				for i := range dst {
					dst[i].Level = false
				}
				return dst
			}
		}},
	{name: "has a counter of an unknown meaning", clause: "stats/names",
		says: "the meaning of counter",
		worker: func(w *fakeWorker) {
			w.readStats = func(dst []transport.Stat) []transport.Stat {
				dst = w.worker.ReadStats(dst)
				dst[len(dst)-1].Means = "trouble"
				return dst
			}
		}},
	{name: "states no path", clause: "path/stated", says: "paths of a worker that has made calls",
		worker: func(w *fakeWorker) {
			w.readPaths = func(dst []transport.Path) []transport.Path { return dst }
		}},
	{name: "states a path without a carrier", clause: "path/stated", says: "the carrier of a path",
		worker: func(w *fakeWorker) {
			w.readPaths = func(dst []transport.Path) []transport.Path {
				return append(dst, transport.Path{})
			}
		}},
	{name: "calls a peer silent that answers", clause: "path/silence",
		says: "Silence of a peer that answers",
		worker: func(w *fakeWorker) {
			w.silence = func(transport.PeerID) error { return errors.New("nothing came") }
		}},
	{name: "has a value too few", clause: "series/values", says: "the values of series",
		worker: func(w *fakeWorker) {
			w.editRecording(func(r *transport.Recorded) {
				r.Series[0].Values = r.Series[0].Values[1:]
			})
		}},
	{name: "divides by the number of polls", clause: "series/values", says: "has the value NaN",
		worker: func(w *fakeWorker) {
			w.editRecording(func(r *transport.Recorded) { r.Series[0].Values[0] = math.NaN() })
		}},
	{name: "traces all", clause: "trace/steps", says: "transfers since StartRecording",
		info: declareTraces, properties: func(p *transport.Properties) {
			p.Capabilities.Traces = true
		},
		worker: func(w *fakeWorker) {
			w.editRecording(func(r *transport.Recorded) {
				r.Transfers = append(r.Transfers, r.Transfers...)
			})
		}},
	{name: "traces backwards", clause: "trace/steps", says: "the end of a transfer",
		info: declareTraces, properties: func(p *transport.Properties) {
			p.Capabilities.Traces = true
		},
		worker: func(w *fakeWorker) {
			w.editRecording(func(r *transport.Recorded) {
				if n := len(r.Transfers); n > 0 {
					r.Transfers[n-1].End--
				}
			})
		}},
	{name: "keeps the first recording", clause: "series/restart",
		says: "since the last StartRecording",
		worker: func(w *fakeWorker) {
			var first []transport.Series
			w.editRecording(func(r *transport.Recorded) {
				if first == nil {
					first = r.Series
				}
				r.Series = first
			})
		}},
	{name: "has two microbenchmarks with one name", clause: "micro/names",
		says:  "two microbenchmarks with one name",
		micro: func(*fakeDriver) []string { return []string{"copy", "copy"} }},
	{name: "has a layer that no microbenchmark measures", clause: "micro/names",
		says: "Info.Layer",
		info: func(_ *fakeDriver, i *transport.Info) { i.Layer = "ring" }},
	{name: "runs all microbenchmarks", clause: "micro/names", says: "ran, but was not wanted",
		micro: func(*fakeDriver) []string { return []string{"copy"} }},
	{name: "probes without a sample", clause: "probe/reading", says: "Floor.Samples",
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				floor, err := w.worker.Probe(ctx, peer, probe)
				floor.Samples = 0
				return floor, err
			}
		}},
	{name: "gives both sides a reading", clause: "probe/reading",
		says: "the Floor of the other side",
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				floor, err := w.worker.Probe(ctx, peer, probe)
				floor.RoundTrip++
				return floor, err
			}
		}},
	{name: "probes after its context has ended", clause: "probe/alone", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, _ transport.PeerID, _ transport.Probe) (
				transport.Floor, error) {
				w.driver.hang()
				return transport.Floor{}, ctx.Err()
			}
		}},
	{name: "returns no error for a probe alone", clause: "probe/alone",
		says: "without the other side",
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				floor, _ := w.worker.Probe(ctx, peer, probe)
				return floor, nil
			}
		}},
	{name: "spins in a probe alone", clause: "probe/alone", says: "sleeps of a probe",
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, _ transport.PeerID, _ transport.Probe) (
				transport.Floor, error) {
				for ctx.Err() == nil {
				}
				return transport.Floor{}, ctx.Err()
			}
		}},
	{name: "waits with a probe of an unknown kind", clause: "probe/unknown",
		says: "Probe of an unknown kind",
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				if probe.Kind != transport.ProbeMedium {
					return transport.Floor{}, context.Canceled
				}
				return w.worker.Probe(ctx, peer, probe)
			}
		}},
	{name: "leaks a credit for each probe", clause: "probe/then-calls",
		says: "calls in flight from", hangs: true,
		worker: func(w *fakeWorker) {
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				w.limits.InFlight--
				return w.worker.Probe(ctx, peer, probe)
			}
		}},
	{name: "treats the numbers of a probe as messages", clause: "probe/then-calls",
		says: "no call in flight has",
		worker: func(w *fakeWorker) {
			numbers := 0
			w.probe = func(ctx context.Context, peer transport.PeerID, probe transport.Probe) (
				transport.Floor, error) {
				numbers++
				return w.worker.Probe(ctx, peer, probe)
			}
			w.poll = func(events []transport.Event) (int, error) {
				if numbers > 0 && len(events) > 0 {
					numbers--
					events[0] = transport.Event{Kind: transport.EventResponse,
						Token: ^transport.Token(0)}
					return 1, nil
				}
				return w.worker.Poll(events)
			}
		}},
}

// editRecording changes what was recorded.
func (w *fakeWorker) editRecording(edit func(*transport.Recorded)) {
	w.recorded = func() transport.Recorded {
		r := w.worker.ReadRecording()
		edit(&r)
		return r
	}
}
