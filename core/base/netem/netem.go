package netem

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"transportbench/core/fabric/suggest"
)

// Network is what the network between ranks does to packets, in the format of [Network.String]. The
// zero value is no such network: the ranks use that of their host.
type Network string

// Impairments are what a network does to the packets of each direction.
type Impairments struct {
	Loss    float64       // share of packets that are dropped
	Delay   time.Duration // of each packet
	Jitter  time.Duration // the delay is uniform within this much of Delay
	Reorder float64       // share of packets that are not delayed and so overtake others
	Rate    float64       // in bit/s; 0 is no limit
}

// maxDelay bounds the delay of a packet, below the timeouts of transports.
const maxDelay = time.Second

// The bounds of a network's rate, in bit/s.
const (
	minRate = 1e5
	maxRate = 1e12
)

// The impairments of a network as users write them.
const (
	keyLoss    = "loss"
	keyDelay   = "delay"
	keyJitter  = "jitter"
	keyReorder = "reorder"
	keyRate    = "rate"
)

// example is the form of a network with all impairments.
const example = "loss=1%,delay=50us,jitter=10us,reorder=0.1%,rate=1Gbit"

// none is the network of the host as users write it.
const none = "none"

// Forms returns the forms of a network as users write them.
func Forms() []string {
	return []string{example, "loss=0% for namespaces without impairments", none}
}

func (n Network) String() string { return cmp.Or(string(n), none) }

// Set parses the format of String.
func (n *Network) Set(text string) error {
	if text == "" || text == none {
		*n = ""
		return nil
	}
	p, err := parse(text)
	if err == nil {
		*n = p.text()
	}
	return err
}

// Impairments returns those of a network that Set has checked.
func (n Network) Impairments() Impairments {
	p, _ := parse(string(n))
	return p
}

// rateUnits are the units of a rate, the largest first.
var rateUnits = []struct {
	name string
	bits float64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}}

// text returns the same text for equal impairments.
func (p Impairments) text() Network {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+"="+value) }
	percent := func(share float64) string {
		return strconv.FormatFloat(100*share, 'g', 6, 64) + "%"
	}
	if p.Loss > 0 || p == (Impairments{}) {
		add(keyLoss, percent(p.Loss))
	}
	if p.Delay > 0 {
		add(keyDelay, p.Delay.String())
	}
	if p.Jitter > 0 {
		add(keyJitter, p.Jitter.String())
	}
	if p.Reorder > 0 {
		add(keyReorder, percent(p.Reorder))
	}
	for _, unit := range rateUnits {
		if p.Rate >= unit.bits {
			add(keyRate, strconv.FormatFloat(p.Rate/unit.bits, 'g', 6, 64)+unit.name)
			break
		}
	}
	return Network(strings.ReplaceAll(strings.Join(parts, ","), "µ", "u"))
}

func parse(text string) (p Impairments, err error) {
	names := []string{keyLoss, keyDelay, keyJitter, keyReorder, keyRate}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, has := strings.Cut(strings.TrimSpace(part), "=")
		if !has {
			return p, fmt.Errorf("%.40q has no value; use %s or %s", part, example, none)
		}
		if seen[name] {
			return p, fmt.Errorf("%.40s is given twice", name)
		}
		seen[name] = true
		switch name {
		case keyLoss:
			p.Loss, err = parsePercent(name, value)
		case keyReorder:
			p.Reorder, err = parsePercent(name, value)
		case keyDelay:
			p.Delay, err = parseDelay(name, value)
		case keyJitter:
			p.Jitter, err = parseDelay(name, value)
		case keyRate:
			p.Rate, err = parseRate(value)
		default:
			err = fmt.Errorf("%.40q is not one of %s%s", name, strings.Join(names, ", "),
				suggest.For(name, names))
		}
		if err != nil {
			return p, err
		}
	}
	switch {
	case p.Jitter > p.Delay:
		return p, fmt.Errorf("jitter %v is longer than the delay %v; use a longer delay",
			p.Jitter, p.Delay)
	case p.Reorder > 0 && p.Delay == 0:
		return p, errors.New(
			"reorder has no effect without a delay, which other packets skip; add delay=50us")
	}
	return p, nil
}

func parsePercent(name, text string) (float64, error) {
	number, has := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !has || math.IsNaN(v) {
		return 0, fmt.Errorf("%s=%.40s is not a percentage such as 1%%", name, text)
	}
	if v < 0 || v > 90 {
		return 0, fmt.Errorf("%s=%.40s is out of range (0%% to 90%%)", name, text)
	}
	return v / 100, nil
}

func parseDelay(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%.40s is not a time such as 50us", name, text)
	}
	if d < 0 || d > maxDelay {
		return 0, fmt.Errorf("%s=%.40s is out of range (0s to %v)", name, text,
			maxDelay)
	}
	return d, nil
}

func parseRate(text string) (float64, error) {
	for _, unit := range rateUnits {
		number, has := strings.CutSuffix(text, unit.name)
		if !has {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(v) {
			break
		}
		if v *= unit.bits; v < minRate || v > maxRate {
			return 0, fmt.Errorf("rate=%.40s is out of range (100kbit to 1000Gbit)", text)
		}
		return v, nil
	}
	return 0, fmt.Errorf("rate=%.40s is not a rate such as 1Gbit, 100Mbit or 500kbit", text)
}

// MaxRanks is the largest number of ranks in a network with impairments.
const MaxRanks = 200
