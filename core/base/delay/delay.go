package delay

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

// Longest bounds what a sampler returns, so that the end of a window does not count calls as lost
// that the storage holds.
const Longest = 5 * time.Second

// none is no delay in flags and files.
const none = "none"

// Forms returns the forms of a delay as users write them.
func Forms() []string {
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
		return fmt.Errorf("%.40q has a part without time; use a form such as %s", text,
			strings.Join(Forms(), ", "))
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
	return min(time.Duration(ns), Longest)
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
			return p, fmt.Errorf("%.40q is not a delay such as %s", text,
				strings.Join(Forms(), ", "))
		}
		return p, p.check(text)
	}
	forms := []string{delayUniform, delayExponential, delayLognormal}
	p.form = form
	low, high, ranged := strings.Cut(times, "-")
	switch form {
	case delayUniform, delayLognormal:
		if !ranged {
			return p, fmt.Errorf("%.40q has one time; use %s:10ms-30ms", text, form)
		}
	case delayExponential:
		if ranged {
			return p, fmt.Errorf("%.40q has two times; use %s:20ms", text, form)
		}
		high = low
	default:
		return p, fmt.Errorf("%.40q is not one of %s%s", form, strings.Join(forms, ", "),
			suggest.For(form, forms))
	}
	if p.low, err = time.ParseDuration(low); err == nil {
		p.high, err = time.ParseDuration(high)
	}
	if err != nil {
		return p, fmt.Errorf("%.40q is not a delay such as %s", text,
			strings.Join(Forms(), ", "))
	}
	return p, p.check(text)
}

func (p delay) check(text string) error {
	longest := max(p.low, p.high)
	switch {
	case p.low < 0 || longest > maxDelay || p.form != "" && p.low == 0:
		return fmt.Errorf("%.40q is out of range (above 0s, to %v)", text, maxDelay)
	case p.form != "" && p.high < p.low:
		return fmt.Errorf("%.40q begins with the longer time; use %s:%v-%v", text, p.form,
			p.high, p.low)
	}
	return nil
}
