package rdma

import (
	"context"
	"errors"
	"time"

	"transportbench/core/fabric/shm"
)

// Bouncer is a queue pair whose medium is shared memory, so that the least that it
// can cost is the bounce of a cache line. Queue pairs of the soft device are.
type Bouncer interface {
	// Bounce is shm.Bounce with the connected peer; both sides call it, one with
	// initiate true.
	Bounce(ctx context.Context, initiate bool, d time.Duration) (roundTrip float64, samples int, err error)
}

// Bounce implements [Bouncer] in a word of the responder's wire.
func (q *softQueuePair) Bounce(ctx context.Context, initiate bool, d time.Duration) (float64, int, error) {
	if q.outer == nil {
		return 0, 0, errors.New("bounce of a queue pair that is not connected")
	}
	segment := q.segment
	if initiate {
		segment = q.outer
	}
	return shm.Bounce(ctx, shm.Word64(segment.Bytes(), wireProbe), initiate, d)
}
