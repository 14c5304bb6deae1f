package erpc

// timely is the congestion control of Mittal et al., "TIMELY: RTT-based congestion
// control for the datacenter" (SIGCOMM 2015, algorithm 1), with the additions of eRPC
// (NSDI 2019, section 5.2): an update counts for as much as it comes after the last
// one, up to a least round trip, so that it does not depend on how many packets there
// are; and a rate is at most halved at once. Times are in nanoseconds, rates in bytes
// per second.
type timely struct {
	rate     float64
	previous float64 // round trip
	gradient float64 // smoothed difference of round trips
	updated  int64
	falling  int // round trips in a row that were shorter than the one before
}

// timelyParameters are the same for all sessions.
type timelyParameters struct {
	minRTT, low, high float64
	step              float64 // additive, of the rate
	least, link       float64 // bounds of the rate
	alpha, beta       float64
	hyper             int // falling round trips after which the step is five times as large
}

const hyperSteps = 5

// uncongested says whether a round trip changes nothing: the rate is the link's and
// stays there.
func (t *timely) uncongested(p *timelyParameters, rtt float64) bool {
	return t.rate == p.link && rtt <= p.low
}

// sample takes a round trip that was measured at now. It says whether the rate fell.
func (t *timely) sample(p *timelyParameters, now int64, rtt float64) bool {
	difference := rtt - t.previous
	if t.previous == 0 {
		difference = 0 // there was none before
	}
	t.previous = rtt
	if t.falling++; difference >= 0 {
		t.falling = 0
	}
	t.gradient = (1-p.alpha)*t.gradient + p.alpha*difference
	weight := min(float64(now-t.updated)/p.minRTT, 1)
	t.updated = now

	before := t.rate
	gradient := t.gradient / p.minRTT
	switch {
	case rtt < p.low:
		t.rate += weight * p.step
	case rtt > p.high:
		t.rate *= 1 - weight*p.beta*(1-p.high/rtt)
	case gradient > 0:
		t.rate *= 1 - weight*p.beta*gradient
	case t.falling >= p.hyper:
		t.rate += weight * hyperSteps * p.step
	default:
		t.rate += weight * p.step
	}
	t.rate = min(max(t.rate, before/2, p.least), p.link)
	return t.rate < before
}
