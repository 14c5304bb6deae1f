package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ReplayPart is what a run depends on of a part of a trace. The options that follow from it (mix,
// value-size, keys, duration and rate) describe it as a load that is drawn, with which the harness
// is measured alone.
type ReplayPart struct {
	Operations uint64
	// Forth and Back are the mean bytes of the values of a message to a daemon and of a response.
	Forth, Back float64
}

const partFormat = "operations=%d,forth=%g,back=%g"

// MarshalText implements [encoding.TextMarshaler].
func (p ReplayPart) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, partFormat, p.Operations, p.Forth, p.Back), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *ReplayPart) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), partFormat, &p.Operations, &p.Forth, &p.Back)
	return err
}

// Name is the name of something that a run may do without. The zero value has none.
type Name string

func (n Name) String() string { return cmp.Or(string(n), none) }

// Speed is the factor by which the times of a trace are shortened; 0 is 1.
type Speed float64

const minSpeed, maxSpeed = 1e-3, 1e6

// SpeedMax ignores the times of a trace, as more operations are due than any transport serves. Its
// throughput is the transport's capacity for the requests of the trace.
const SpeedMax Speed = maxSpeed

// Factor returns the factor.
func (s Speed) Factor() float64 {
	if s == 0 {
		return 1
	}
	return float64(s)
}

func (s Speed) String() string {
	if s >= SpeedMax {
		return maximum
	}
	return strconv.FormatFloat(s.Factor(), 'g', -1, 64)
}

// Set parses "max" or a factor.
func (s *Speed) Set(text string) error {
	if text == maximum {
		*s = SpeedMax
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if strings.HasSuffix(text, "%") {
		return fmt.Errorf("%q is a share of the capacity, which only a sweep measures; use a "+
			"factor such as 0.5 or 2", text)
	}
	if err != nil || !(value >= minSpeed && value <= maxSpeed) {
		return fmt.Errorf("%q is not a factor from %g to %g", shorten(text), minSpeed, maxSpeed)
	}
	if *s = Speed(value); value == 1 {
		*s = 0
	}
	return nil
}

// replayDigest begins an option replay that was prepared: it has the digest of the trace in place
// of its path.
const replayDigest = "sha256:"

// Replays reports whether the requests are those of a trace that was prepared.
func (c *Config) Replays() bool { return strings.HasPrefix(string(c.Replay), replayDigest) }

// ignoresTimes reports whether the requests are sent without regard to the times in the trace.
func (c *Config) ignoresTimes() bool { return c.Closed || c.Speed >= SpeedMax }

// accelerate shortens the times of the part of a trace, and so the window, by a factor.
func (c *Config) accelerate(factor float64) {
	c.Duration = Duration(max(float64(c.Duration)/factor, float64(time.Millisecond)))
	c.Rate = Rate(float64(c.Part.Operations) / time.Duration(c.Duration).Seconds())
}

// SetRate sets the rate of an open loop. That of a replay follows from its speed, which it sets.
func (c *Config) SetRate(rate Rate) {
	if !c.Replays() {
		c.Rate = rate
		return
	}
	factor := float64(rate / c.Rate)
	c.Speed = Speed(c.Speed.Factor() * factor)
	c.accelerate(factor)
}

// replayInFlight is the number of calls in flight of a replay in an open loop, and replayBuffers
// bounds the memory of their messages.
const replayInFlight, replayBuffers = 64, 64 << 20

// storeLine is what a store rounds the memory of an entry up to, and storeEntries the largest
// number of entries in its table for each key. storePage is what an entry touches beyond its value.
// replayStore bounds the memory of the store of a rank if the user does not choose the keys.
const storeLine, storeEntries, storePage, replayStore = 64, 4, 4096, 512 << 20

// Replay is a part of a trace that was prepared, for [Layer.Trace].
type Replay struct {
	Digest string // in hexadecimal
	Format string
	ReplayPart
	Keys       uint64
	Length     time.Duration // at speed 1; 0 if all requests have one time
	Mix        Mix
	ValueSize  Sizes
	WorkingSet uint64 // bytes
}

// Name returns what an option replay says in place of the path.
func (r *Replay) Name() Name { return Name(replayDigest + r.Digest[:16]) }

// settleReplay replaces the path of a trace by its digest and sets the options that follow from it.
func (r *resolution) settleReplay() error {
	c := &r.c
	if c.Replay == "" {
		return nil
	}
	for _, name := range traceOptions() {
		if r.from[name] >= max(r.from[optionReplay], 1) &&
			!(c.ignoresTimes() && name == "duration") {
			return &Error{name, "a trace has its own; leave it out"}
		}
	}
	if c.Replays() || r.trace == nil {
		return nil
	}
	part, err := r.trace(c)
	if err != nil {
		return &Error{optionReplay, err.Error()}
	}
	c.Replay, c.ReplayFormat = part.Name(), Name(part.Format)
	c.Part = &part.ReplayPart
	c.Mix, c.ValueSize, c.Pattern = part.Mix, part.ValueSize, nil
	c.ReadRatio = Default().ReadRatio
	switch {
	case c.Closed:
		c.Rate = 0
	case c.ignoresTimes():
		c.Rate = RateMax
	case part.Length == 0:
		return &Error{optionReplay, "all requests have one time, so there is no rate; use " +
			"--closed or --speed max"}
	default:
		c.Duration = Duration(part.Length)
		c.accelerate(c.Speed.Factor())
	}
	if c.Rate != 0 && r.over(optionReplay, optionInFlight) {
		c.InFlight = max(1, min(replayInFlight, replayBuffers/c.LargestMessage()))
	}
	if r.over(optionReplay, "keys") {
		entry := min(float64(storeEntries*(c.LargestMessage()+storeLine)),
			float64(part.WorkingSet)/float64(part.Keys)+storePage)
		ranks := c.ServingRanks()
		c.Keys = min((int(part.Keys)+ranks-1)/ranks, max(1, int(replayStore/entry)))
	}
	return nil
}

// checkReplay checks the options of a trace against the others.
func checkReplay(c *Config) *Error {
	if c.Replay == "" {
		for _, name := range []string{"replay-format", "from", "for", "speed", "closed"} {
			if f := FieldByName(name); f.Show(c) != f.Default {
				return &Error{name, "needs a trace; set --replay too"}
			}
		}
		return nil
	}
	switch {
	case c.Service != ServiceStore:
		return &Error{"service", fmt.Sprintf("%s has no keys, and a trace has; leave it out",
			c.Service)}
	case len(c.Classes) > 0:
		return &Error{optionClass, "a trace has its own clients; leave one of them out"}
	case c.Traffic.Mesh() || c.Turns() > 0:
		return &Error{optionTraffic, fmt.Sprintf("%s chooses the rank of each call, and a trace "+
			"its key; leave one of them out", c.Traffic)}
	case c.Closed && c.Speed != 0:
		return &Error{"speed", "has no meaning with --closed, which ignores times; leave one of " +
			"them out"}
	case c.Part == nil:
		return nil
	case c.Part.Operations == 0 || !(c.Part.Forth >= 0) || !(c.Part.Back >= 0):
		return &Error{optionReplay, "the part of the trace is empty"}
	}
	return nil
}

// traceOptions are the options that a trace determines.
func traceOptions() []string {
	return []string{optionValueSize, optionReadRatio, optionMix, optionPattern, optionRate,
		"duration"}
}
