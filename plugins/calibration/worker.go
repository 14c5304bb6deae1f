package calibration

import (
	"errors"
	"math/rand/v2"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

// soundWorker is a worker of package inbox.
type soundWorker interface {
	transport.Worker
	transport.Waiter
	transport.StatsReader
	transport.PathReader
}

// worker injects what the options ask for between a sound worker and its user.
type worker struct {
	soundWorker
	injection injection
	random    *rand.Rand
	held      *held
	detour    *detour // nil without one
	closed    bool
	boot      int64 // see sinceBoot
	step      int64 // nanoseconds between the last two readings of the clock while spinning

	pace pace
	// when Post may take a call again, if it took fewer than it was given; otherwise 0
	blocked int64
	// clientTimeDone is set while the sound worker has not taken a call whose client-time is over.
	clientTimeDone bool

	// gap is the recent time between two calls of Poll that return nothing, and polled when the
	// last such Poll read the clock, or 0.
	gap, polled int64

	lose, corrupt, duplicate every
	late                     [2]late // requests and responses

	counts counts
}

type counts struct {
	copies, copiedBytes, delayed, lost, corrupted, duplicated, reordered, refused uint64
}

func newWorker(sound soundWorker, in injection, seed uint64, maxPayload, events int) (*worker,
	error) {
	boot, err := sinceBoot()
	if err != nil {
		return nil, err
	}
	h, err := newHeld(maxPayload, events)
	if err != nil {
		return nil, err
	}
	w := &worker{soundWorker: sound, injection: in, held: h, boot: boot,
		random: rand.New(rand.NewPCG(seed, 0)), pace: newPace(in.rate, clock.Now()), gap: minGap,
		lose: newEvery(in.lose), corrupt: newEvery(in.corrupt), duplicate: newEvery(in.duplicate)}
	if in.path == pathDetour {
		if w.detour, err = newDetour(); err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	for i := range w.late {
		w.late[i].every = newEvery(in.reorder)
	}
	return w, nil
}

// Close implements [transport.Worker].
func (w *worker) Close() error {
	w.closed, w.blocked = true, 0
	w.held.drop()
	return w.soundWorker.Close()
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	first := len(dst)
	dst = w.soundWorker.ReadStats(dst)
	for i := range dst[first:] {
		switch s := &dst[first+i]; s.Name {
		case transport.StatCopies:
			s.Value += w.counts.copies
		case transport.StatCopiedBytes:
			s.Value += w.counts.copiedBytes
		}
	}
	return append(dst,
		transport.Stat{Name: "injected_delays", Help: "responses that were delayed on purpose",
			Value: w.counts.delayed},
		transport.Stat{Name: "injected_losses", Help: "responses that were dropped on purpose",
			Value: w.counts.lost},
		transport.Stat{Name: "injected_corruptions", Help: "payloads that were changed on purpose",
			Value: w.counts.corrupted},
		transport.Stat{Name: "injected_duplicates",
			Help: "responses that were returned twice on purpose", Value: w.counts.duplicated},
		transport.Stat{Name: "injected_reorderings",
			Help:  "events that were returned after the next one on purpose",
			Value: w.counts.reordered},
		transport.Stat{Name: "injected_refusals", Help: "posts that the rate or a stall refused",
			Value: w.counts.refused},
	)
}
