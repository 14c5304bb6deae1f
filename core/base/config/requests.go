package config

// The bounds of what a client draws before its first window.
const (
	// repeatPerKey is the number of requests for each key of the store. A sample of that size
	// leaves out 2% of uniform keys.
	repeatPerKey = 4
	// minRepeat keeps the shares of operations in the sample within 2% of those that are asked
	// for; echoes and sinks have one operation, and their requests fit the first-level cache.
	minRepeat, minRepeatSame = 4096, 64
	// repeatAhead is the number of requests for each call in flight, so that a client knows which
	// call it will issue after three times as many others: the one whose stages it takes.
	repeatAhead = 4
	// repeatBytes bounds the memory of the requests to what a second-level cache and its prefetcher
	// keep up with.
	repeatBytes = 4 << 20
)

// Requests returns the number of requests that a client holds, and whether it draws and encodes
// them before its first window and repeats them in order.
//
// It repeats them unless the requests are those of a trace or a hand-off, an operation depends on
// earlier ones (insert, rmw, the distribution latest) or the store has so many keys, or values so
// large, that a representative sample exceeds 4 MiB. Then the client draws as it goes, with twice
// as many requests as may be in flight.
//
// The number of repeated requests is a prime, or for a sequence that must not be cut a multiple of
// it by a prime. So a buffer or slot that a transport uses again after a power of two of messages
// gets another message than last time, and parts of the old one that remain in it are wrong.
func (c *Config) Requests() (n int, repeated bool) {
	n = 2 * c.InFlight
	if c.Replays() || c.Handoff != "" {
		return n, false
	}
	unit := max(c.Turns(), 1)
	whole := func(need int) int { return unit * nextPrime((need+unit-1)/unit) }
	if c.Service != ServiceStore {
		return whole(max(repeatAhead*c.InFlight, minRepeatSame)), true
	}
	if c.Distribution == DistributionLatest {
		return n, false
	}
	for op, weight := range c.operations() {
		if weight > 0 && (op == OpInsert || op == OpRMW) {
			return n, false
		}
	}
	if c.Distribution == DistributionSequential {
		unit *= c.TotalKeys()
	}
	unit *= max(c.Pattern.Len(), 1)
	limit := repeatBytes / ((c.LargestMessage() + 63) &^ 63)
	need := max(repeatAhead*c.InFlight, repeatPerKey*c.TotalKeys(), minRepeat)
	if need > limit || unit > limit {
		return n, false
	}
	return whole(need), true
}

// nextPrime returns the first odd prime from n on.
func nextPrime(n int) int {
	for n = max(n, 3) | 1; ; n += 2 {
		prime := true
		for d := 3; d*d <= n && prime; d += 2 {
			prime = n%d != 0
		}
		if prime {
			return n
		}
	}
}
