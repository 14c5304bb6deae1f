package erpc

// timely is the congestion control of Mittal et al., "TIMELY: RTT-based congestion control for the
// datacenter" (SIGCOMM 2015, algorithm 1), with eRPC's additions (NSDI 2019, section 5.2): an
// update's weight grows with the time since the last one, up to minRTT, so that the rate does not
// depend on the number of packets; and one update at most halves the rate. Times are in
// nanoseconds, rates in bytes per second.
type timely struct {
	rate     float64
	previous float64 // round trip
	gradient float64 // smoothed difference of round trips
	updated  int64
	falls    int // consecutive round trips that were shorter than the one before
}

// timelyParameters are the same for all sessions.
type timelyParameters struct {
	minRTT, low, high float64
	step              float64 // additive increase of the rate
	minRate, linkRate float64
	alpha, beta       float64
	hyperAfter        int // falls after which the increase is hyperSteps times as large
}

const hyperSteps = 5

// uncongested reports whether the rate is the link's and stays there after a round trip. Such a
// round trip skips update, so it leaves previous and gradient as they are too.
func (t *timely) uncongested(p *timelyParameters, rtt float64) bool {
	return t.rate == p.linkRate && rtt <= p.low
}

// update updates the rate with a round trip that was measured at now. It reports whether the rate
// fell.
func (t *timely) update(p *timelyParameters, now int64, rtt float64) bool {
	difference := rtt - t.previous
	if t.previous == 0 {
		difference = 0 // the first round trip
	}
	t.previous = rtt
	if t.falls++; difference >= 0 {
		t.falls = 0
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
	case t.falls >= p.hyperAfter:
		t.rate += weight * hyperSteps * p.step
	default:
		t.rate += weight * p.step
	}
	t.rate = min(max(t.rate, before/2, p.minRate), p.linkRate)
	return t.rate < before
}

// measure updates a session's rate with a round trip.
func (w *worker) measure(p *session, now, rtt int64) {
	c := &w.settings.congestion
	if p.timely.uncongested(c, float64(rtt)) {
		w.counts.rateBypassed++
		return
	}
	if p.timely.update(c, now, float64(rtt)) {
		w.counts.rateFell++
	}
	w.counts.rateSamples++
	w.counts.rateSum += uint64(p.timely.rate)
	if p.timely.rate == c.minRate {
		w.counts.minRate++
	}
}

// pace transmits a client's packet, or puts it into the wheel until the session's rate allows it.
// An RFR counts as much as the response packet that it asks for, which is what may congest the
// network.
func (w *worker) pace(s *clientSlot, number int, now int64) {
	p := s.session
	// A packet must not overtake one of its slot that waits in the wheel.
	if s.inWheel == 0 && (!w.settings.timely || p.timely.rate == w.settings.congestion.linkRate &&
		p.sendAt <= now) {
		w.counts.bypassed++
		w.transmit(s, number, now)
		return
	}
	x := &s.rpc
	from, to := fragment(number, x.requestSize, w.maxData)
	if number >= x.requestPackets {
		from, to = fragment(number-x.requestPackets+1, x.responseSize, w.maxData)
	}
	at := max(p.sendAt, now)
	p.sendAt = at + int64(float64(to-from+headerSize)*1e9/p.timely.rate)
	if (at > now || s.inWheel > 0) && w.schedule(p, s, s.request, number, now, at) {
		w.counts.paced++
		return
	}
	w.transmit(s, number, now)
}
