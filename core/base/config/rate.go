package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is an open-loop load in op/s; 0 is a closed loop.
type Rate float64

// The bounds of a rate. The schedule has a resolution of a nanosecond or better.
const (
	minRate = 0.001
	maxRate = 1e9
)

const (
	closedLoop = "closed"
	maximum    = "max"
)

// RateMax is an open loop of which more operations are due than any transport serves. Its
// throughput is the transport's capacity for open loops, and its response times have no meaning.
const RateMax Rate = maxRate

// Offers reports whether r is the load of an open loop, other than RateMax.
func (r Rate) Offers() bool { return r > 0 && r < RateMax }

func (r Rate) String() string {
	switch r {
	case 0:
		return closedLoop
	case RateMax:
		return maximum
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64)
}

// Set parses "closed", "max", or a rate with an optional suffix k or M.
func (r *Rate) Set(text string) error {
	if text == closedLoop {
		*r = 0
		return nil
	}
	if text == maximum {
		*r = RateMax
		return nil
	}
	digits, factor := text, 1.0
	for suffix, f := range map[string]float64{"k": 1e3, "M": 1e6} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			digits, factor = rest, f
		}
	}
	value, err := strconv.ParseFloat(digits, 64)
	if strings.HasSuffix(text, "%") {
		return fmt.Errorf("%q is a share of the capacity, which only a sweep measures; use a "+
			"rate such as 5000, 200k or 1.5M", text)
	}
	if err != nil {
		return fmt.Errorf("%q is neither a rate such as 5000, 200k or 1.5M nor %q", text,
			closedLoop)
	}
	value *= factor
	if !(value >= minRate && value <= maxRate) { // also rejects NaN
		return fmt.Errorf("%g op/s is out of range (%g to %g); use %q for a closed loop", value,
			minRate, maxRate, closedLoop)
	}
	*r = Rate(value)
	return nil
}

// The arrival processes of an open-loop load.
const (
	// ArrivalPoisson has exponential gaps, like the requests of independent users.
	ArrivalPoisson = "poisson"
	// ArrivalConstant has equal gaps.
	ArrivalConstant = "constant"
)

// ByHash is a share of remote requests that follows from the keys' owners.
const ByHash Share = -1

// Share is a fraction of requests, or ByHash.
type Share float64

func (s Share) String() string {
	if s == ByHash {
		return byHash
	}
	return strconv.FormatFloat(float64(s), 'g', -1, 64)
}

const byHash = "hash"

// Set parses "hash" or a fraction.
func (s *Share) Set(text string) error {
	if text == byHash {
		*s = ByHash
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%q is neither a share from 0 to 1 nor %q", text, byHash)
	}
	if !(value >= 0 && value <= 1) {
		return fmt.Errorf("%g is out of range (0 to 1)", value)
	}
	*s = Share(value)
	return nil
}
