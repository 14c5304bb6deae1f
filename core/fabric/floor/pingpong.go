package floor

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// Medium carries numbers between the two sides of a [PingPong]. No method waits for
// the other side.
type Medium interface {
	// Post sends number to the other side.
	Post(number uint64) error
	// Take returns a number that has arrived; ok is false if there is none. It may
	// return the same number again.
	Take() (number uint64, ok bool, err error)
}

// PingPong is one side of ping-pongs over one connection. Keep it for as long as the
// medium may deliver numbers of an earlier Run: numbers only grow, so that Run ignores
// the old ones.
type PingPong struct {
	Name   string // of the floor, such as "raw TCP ping-pong"
	Medium Medium

	// Batch is how many round trips are timed together; 0 is 1. Use more if reading
	// the clock costs more than a few percent of a round trip.
	Batch int

	// Wait is set if Medium moves a number in parts: Medium calls Wait.Found for each part, which
	// shows that the other side is running. Run makes a Wait if it is nil.
	Wait *spin.Wait

	// LostAfter is the number of consecutive empty calls of Take after which a number counts as
	// lost; 0 if the medium loses none. A batch with a lost number does not count. A medium that
	// loses numbers ends the ping-pong itself: Run sends no end mark.
	LostAfter int

	number uint64 // the largest that either side has posted
}

// lastNumber is the bit that is set in the number that ends a ping-pong.
const lastNumber = 1 << 63

// Run continues beyond its time until it has minTimes batches, but at most for minTimes times its
// time. Fewer batches give no median on a machine that takes the processor away.
const (
	minTimes    = 100
	maxOvertime = 4
)

// warmups is how many batches are dropped: the first waits for the other side, and
// those after it may find caches and branch predictors cold.
const warmups = 3

// firstLostAfter is LostAfter for the first number. It doubles with each next number up to
// LostAfter, because the other side may drop numbers that arrive before it joins.
const firstLostAfter = 1 << 10

// Run measures round trips for about d after the other side has joined. Both sides call
// it, one with initiate true; that side returns the reading, the other a zero Floor.
// Run spins as in package spin, and returns the cause of ctx when ctx ends first. It returns
// errors of the medium unwrapped.
func (p *PingPong) Run(ctx context.Context, initiate bool, d time.Duration) (transport.Floor,
	error) {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	if p.Wait == nil {
		p.Wait = new(spin.Wait)
	}
	var times []float64
	var err error
	if initiate {
		times, err = p.lead(&stopped, d)
	} else {
		err = p.follow(&stopped)
	}
	switch {
	case err != nil:
		return transport.Floor{}, err
	case stopped.Load():
		return transport.Floor{}, context.Cause(ctx)
	case !initiate:
		return transport.Floor{}, nil
	}
	return transport.Floor{Name: p.Name, RoundTrip: Median(times),
		Samples: len(times) * max(p.Batch, 1)}, nil
}

// lead returns the mean round trip of each batch, in nanoseconds.
func (p *PingPong) lead(stopped *atomic.Bool, d time.Duration) (times []float64, err error) {
	// After a cancelled run that the other side led, its number may be larger.
	if number, ok, err := p.Medium.Take(); err != nil {
		return nil, err
	} else if ok {
		p.number = max(p.number, number&^lastNumber)
	}
	batch := max(p.Batch, 1)
	before := time.Now()
	joined := before
	patience := min(p.LostAfter, firstLostAfter)
	for len(times) <= warmups || before.Sub(joined) < d || len(times) < minTimes &&
		before.Sub(joined) < maxOvertime*d {
		whole := true
		for range batch {
			p.number++
			answered, err := p.roundTrip(stopped, p.number, patience)
			if err != nil || stopped.Load() {
				return nil, err
			}
			whole = whole && answered
		}
		now := time.Now()
		patience = min(2*patience, p.LostAfter)
		if whole {
			if times = append(times, float64(now.Sub(before))/float64(batch)); len(times) == 1 {
				joined = now
			}
		}
		before = now
	}
	if p.LostAfter == 0 {
		p.number++
		_, err = p.roundTrip(stopped, p.number|lastNumber, 0)
	}
	return times[warmups:], err
}

// roundTrip posts a number and waits for its echo for at most patience empty calls of Take; 0 means
// no limit. It returns false if the number is lost or the run is stopped.
func (p *PingPong) roundTrip(stopped *atomic.Bool, number uint64, patience int) (answered bool,
	err error) {
	if err := p.Medium.Post(number); err != nil {
		return false, err
	}
	for looks := 1; !stopped.Load(); looks++ {
		echo, ok, err := p.Medium.Take()
		if err != nil {
			return false, err
		}
		if ok && echo == number {
			p.Wait.Found()
			return true, nil
		}
		if looks == patience { // the wait goes on with the next number
			return false, nil
		}
		p.Wait.IdleCall()
	}
	return false, nil
}

// follow echoes numbers up to the last.
func (p *PingPong) follow(stopped *atomic.Bool) error {
	for !stopped.Load() {
		number, ok, err := p.Medium.Take()
		if err != nil {
			return err
		}
		if !ok || number&^lastNumber <= p.number {
			p.Wait.IdleCall()
			continue
		}
		p.Wait.Found()
		p.number = number &^ lastNumber
		if err := p.Medium.Post(number); err != nil || number&lastNumber != 0 {
			return err
		}
	}
	return nil
}

// Median sorts times and returns their median, or 0 if there is none.
func Median(times []float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/2]
}
