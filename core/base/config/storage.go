package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/fabric/suggest"
)

// Delay is the time that the storage behind the store takes for one value: fixed, or a
// distribution. The zero value is no delay. A value holds a lane of the storage for all of its
// delay. A delay of two parts, such as 20ms+exponential:2ms, holds one for the second part only.
type Delay string

// The distributions of delays.
const (
	delayUniform     = "uniform"     // uniform:10ms-30ms
	delayExponential = "exponential" // exponential:20ms, its mean
	delayLognormal   = "lognormal"   // lognormal:20ms-60ms, its median and its 99th percentile
)

// delayParts stands between the part of a delay outside of a lane and that in one.
const delayParts = "+"

// maxDelay bounds the longest fixed delay and the parameters of distributions.
const maxDelay = time.Second

// maxStorageDrain bounds the time that the storage takes for all calls in flight, so that the end
// of a window does not count them as lost.
const maxStorageDrain = 5 * time.Second

// MaxStorageLanes is the largest number of requests that the storage of a daemon serves at a time.
const MaxStorageLanes = 1 << 16

// DelayForms returns the forms of a delay as users write them.
func DelayForms() []string {
	return []string{"20ms", delayUniform + ":10ms-30ms", delayExponential + ":20ms",
		delayLognormal + ":20ms-60ms", "20ms" + delayParts + delayExponential + ":2ms"}
}

func (d Delay) String() string { return cmp.Or(string(d), none) }

// Set parses the format of String.
func (d *Delay) Set(text string) error {
	var parts []string
	for _, part := range strings.SplitN(text, delayParts, 2) {
		p, err := parseDelay(part)
		if err != nil {
			return err
		}
		parts = append(parts, string(p.text()))
	}
	if len(parts) == 2 && slices.Contains(parts, "") {
		return fmt.Errorf("%q has a part without time; use a form such as %s", shorten(text),
			strings.Join(DelayForms(), ", "))
	}
	*d = Delay(strings.Join(parts, delayParts))
	return nil
}

// Parts returns the part of a delay outside of a lane, which is often none, and that in a lane.
func (d Delay) Parts() (outside, lane Delay) {
	if before, after, two := strings.Cut(string(d), delayParts); two {
		return Delay(before), Delay(after)
	}
	return "", d
}

// Sampler returns a function that turns draws into delays: one from (0, 1], and one from a normal
// distribution with mean 0 and deviation 1. It needs one part of a delay that Set has checked.
func (d Delay) Sampler() func(unit, normal float64) time.Duration {
	p, _ := parseDelay(string(d))
	return p.sample
}

// Mean returns the mean of one part of a delay.
func (d Delay) Mean() time.Duration {
	p, _ := parseDelay(string(d))
	switch p.form {
	case delayUniform:
		return (p.low + p.high) / 2
	case delayLognormal:
		sigma := p.sigma()
		return time.Duration(float64(p.low) * math.Exp(sigma*sigma/2))
	}
	return p.low
}

// delay is a parsed Delay.
type delay struct {
	form      string // a distribution, or empty for a fixed delay
	low, high time.Duration
}

// normal99 is the 99th percentile of the normal distribution.
const normal99 = 2.3263478740408408

// sigma returns the deviation of the logarithm of a lognormal delay.
func (p delay) sigma() float64 { return math.Log(float64(p.high)/float64(p.low)) / normal99 }

func (p delay) sample(unit, normal float64) time.Duration {
	ns := float64(p.low)
	switch p.form {
	case delayUniform:
		ns += float64(p.high-p.low) * unit
	case delayExponential:
		ns *= -math.Log(unit)
	case delayLognormal:
		ns *= math.Exp(p.sigma() * normal)
	}
	return min(time.Duration(ns), maxStorageDrain)
}

func (p delay) text() Delay {
	switch {
	case p.form == "" && p.low == 0:
		return ""
	case p.form == "":
		return Delay(p.low.String())
	case p.form == delayExponential:
		return Delay(p.form + ":" + p.low.String())
	}
	return Delay(p.form + ":" + p.low.String() + "-" + p.high.String())
}

func parseDelay(text string) (p delay, err error) {
	if text == "" || text == none {
		return p, nil
	}
	form, times, has := strings.Cut(text, ":")
	if !has {
		p.low, err = time.ParseDuration(text)
		if err != nil {
			return p, fmt.Errorf("%q is not a delay such as %s", shorten(text),
				strings.Join(DelayForms(), ", "))
		}
		return p, p.check(text)
	}
	forms := []string{delayUniform, delayExponential, delayLognormal}
	p.form = form
	low, high, ranged := strings.Cut(times, "-")
	switch form {
	case delayUniform, delayLognormal:
		if !ranged {
			return p, fmt.Errorf("%q has one time; use %s:10ms-30ms", shorten(text), form)
		}
	case delayExponential:
		if ranged {
			return p, fmt.Errorf("%q has two times; use %s:20ms", shorten(text), form)
		}
		high = low
	default:
		return p, fmt.Errorf("%q is not one of %s%s", shorten(form), strings.Join(forms, ", "),
			suggest.For(form, forms))
	}
	if p.low, err = time.ParseDuration(low); err == nil {
		p.high, err = time.ParseDuration(high)
	}
	if err != nil {
		return p, fmt.Errorf("%q is not a delay such as %s", shorten(text),
			strings.Join(DelayForms(), ", "))
	}
	return p, p.check(text)
}

func (p delay) check(text string) error {
	longest := max(p.low, p.high)
	switch {
	case p.low < 0 || longest > maxDelay || p.form != "" && p.low == 0:
		return fmt.Errorf("%q is out of range (above 0s, to %v)", shorten(text), maxDelay)
	case p.form != "" && p.high < p.low:
		return fmt.Errorf("%q begins with the longer time; use %s:%v-%v", shorten(text), p.form,
			p.high, p.low)
	}
	return nil
}

// Stored reports whether a storage delays requests.
func (c *Config) Stored() bool {
	return c.ReadDelay != "" || c.WriteDelay != "" || c.LookupDelay != ""
}

// checkStorage checks the delays against the service and the calls in flight.
func checkStorage(c *Config) *Error {
	switch {
	case c.StorageLanes > 0 && c.ReadDelay == "" && c.WriteDelay == "":
		return &Error{"storage-lanes",
			"has no effect without a delay; use --read-delay or --write-delay too"}
	case c.WriteLanes > 0 && (c.StorageLanes == 0 || c.WriteDelay == ""):
		return &Error{"write-lanes",
			"has no effect alone; use --storage-lanes and --write-delay too"}
	}
	writeLanes, lanesOption := c.StorageLanes, "storage-lanes"
	if c.WriteLanes > 0 {
		writeLanes, lanesOption = c.WriteLanes, "write-lanes"
	}
	for _, d := range []struct {
		option, more string
		delay        Delay
		lanes        int
	}{{"read-delay", "storage-lanes", c.ReadDelay, c.StorageLanes},
		{"write-delay", lanesOption, c.WriteDelay, writeLanes}} {
		if d.delay == "" || d.lanes == 0 {
			continue
		}
		calls := c.TotalClients() * c.InFlight
		_, held := d.delay.Parts()
		if rounds := (calls + d.lanes - 1) / d.lanes; time.Duration(rounds) >
			maxStorageDrain/max(held.Mean(), 1) {
			return &Error{d.option, fmt.Sprintf("%d calls in flight take over %v on %d lanes at "+
				"%s each; use more --%s or a shorter delay",
				calls, maxStorageDrain, d.lanes, held, d.more)}
		}
	}
	return nil
}
