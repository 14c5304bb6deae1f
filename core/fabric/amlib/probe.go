package amlib

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slice is how long a probe stays in C before it checks its context, and maxSlice that of a leader
// whose round trips take so long that no batch ends within a shorter one, as over a network with a
// delay.
const slice, maxSlice = time.Millisecond, 512 * time.Millisecond

// maxTrips is the largest number of batches that a probe records.
const maxTrips = 1 << 16

// TripsPerBatch is how many round trips the shims time together.
const TripsPerBatch = 16

var errPeerLost = errors.New("the peer was lost")

// Lead measures round trips to a peer that follows, for about d after the first one. It returns the
// mean of each batch in nanoseconds. run makes round trips for a time and appends to trips, of
// which filled are in use; it reports whether the peer was lost.
func Lead(ctx context.Context, d time.Duration, run func(within time.Duration, trips []float64,
	filled int) (int, bool)) ([]float64, error) {
	trips := make([]float64, maxTrips)
	filled := 0
	var begin time.Time
	within := min(slice, max(d, time.Microsecond))
	for filled == 0 || filled < maxTrips && time.Since(begin) < d {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var lost bool
		if filled, lost = run(within, trips, filled); lost {
			return nil, errPeerLost
		}
		switch {
		case filled == 0:
			within = min(2*within, maxSlice)
		case begin.IsZero():
			begin = time.Now()
		}
	}
	return trips[:filled], nil
}

// Follow answers the pings of a leader until the leader ends its session. run answers for a time,
// and returns 1 once the session has ended and -1 once the peer is lost.
func Follow(ctx context.Context, run func(within time.Duration) int) error {
	for {
		switch run(slice) {
		case 1:
			return nil
		case -1:
			return errPeerLost
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the probe does not end: %w", context.Cause(ctx))
		}
	}
}
