package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: a ping-pong of empty datagrams, with
// nothing but the kernel between the two threads.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (floor transport.Floor, err error) {
	p := w.peer(id)
	switch {
	case w.closed:
		err = transport.ErrClosed
	case p == nil || p.lost:
		err = transport.ErrPeerDown
	case initiate:
		floor, err = w.initiate(ctx, p, d)
	default:
		err = w.answer(ctx, p)
	}
	if err != nil {
		return transport.Floor{}, opError("probe", id, err)
	}
	return floor, nil
}

// initiate sends pings until d has passed since the first pong. Its tokens
// begin anywhere, so that no leftover of an earlier probe passes for an answer.
func (w *worker) initiate(ctx context.Context, p *peer, d time.Duration) (transport.Floor, error) {
	var trips []time.Duration
	token := transport.Token(rand.Uint64())
	for begin := time.Now(); len(trips) < 2 || time.Since(begin) < d; {
		start := time.Now()
		token++
		if err := w.throw(ctx, p, kindPing, token); err != nil {
			return transport.Floor{}, err
		}
		for kind, got := uint64(0), token; kind != kindPong || got != token; {
			var err error
			if kind, got, err = w.catch(ctx, p); err != nil {
				return transport.Floor{}, err
			}
		}
		if trips = append(trips, time.Since(start)); len(trips) == 1 {
			begin = time.Now()
		}
	}
	trips = trips[1:] // the first waited for the peer to take part
	slices.Sort(trips)
	return transport.Floor{Name: "raw datagram ping-pong", RoundTrip: float64(trips[len(trips)/2]), Samples: len(trips)},
		w.throw(ctx, p, kindEnd, token)
}

// answer sends pongs until the end of the probe whose last ping it answered.
func (w *worker) answer(ctx context.Context, p *peer) error {
	for last := transport.Token(0); ; {
		kind, token, err := w.catch(ctx, p)
		if err != nil || kind == kindEnd && token == last {
			return err
		}
		if kind == kindPing {
			last = token
			if err := w.throw(ctx, p, kindPong, token); err != nil {
				return err
			}
		}
	}
}

// throw sends one datagram, as soon as there is room.
func (w *worker) throw(ctx context.Context, p *peer, kind uint64, token transport.Token) error {
	for ctx.Err() == nil {
		if err := w.send(p, kind, token, nil); err != unix.EAGAIN {
			return err
		}
	}
	return fmt.Errorf("the peer takes no part: %w", ctx.Err())
}

// catch waits for the next datagram of p.
func (w *worker) catch(ctx context.Context, p *peer) (kind uint64, token transport.Token, err error) {
	for ctx.Err() == nil {
		if datagram := w.receive(w.in[0]); datagram != nil {
			if from, kind, token := w.parse(datagram); from == p {
				return kind, token, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("the peer takes no part: %w", ctx.Err())
}
