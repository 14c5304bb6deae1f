package rdma

import (
	"context"
	"errors"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// Bouncer is a queue pair whose medium is shared memory, so that the least that it
// can cost is the bounce of a cache line. Queue pairs of the soft device are.
type Bouncer interface {
	// Bounce is floor.Bounce with the connected peer; both sides call it, one with
	// initiate true.
	Bounce(ctx context.Context, initiate bool, d time.Duration) (transport.Floor, error)
}

// Bounce implements [Bouncer] in a word of the responder's wire.
func (q *softQueuePair) Bounce(ctx context.Context, initiate bool, d time.Duration) (transport.Floor, error) {
	if q.outer == nil {
		return transport.Floor{}, errors.New("bounce of a queue pair that is not connected")
	}
	segment := q.segment
	if initiate {
		segment = q.outer
	}
	return floor.Bounce(ctx, shm.Word64(segment.Bytes(), wireProbe), initiate, d)
}
