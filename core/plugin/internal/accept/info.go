package accept

import (
	"regexp"
	"slices"
	"strconv"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Names of transports and of their options.
var (
	transportName = regexp.MustCompile(`^[a-z0-9]+$`)
	optionName    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// optionTypes are the types of options.
var optionTypes = []string{
	string(transport.TypeBool), string(transport.TypeInt), string(transport.TypeSize), string(transport.TypeDuration), string(transport.TypeString),
}

// Info checks what a transport says of itself before it is opened.
func Info(info *transport.Info) error {
	c := new(checker)
	p := c.at("info")
	p.named("name", info.Name, transportName)
	if info.Choose != "" { // plugins of earlier versions have neither this nor groups
		p.text("choose", info.Choose)
	}
	p.groups(info.Groups)
	p.atMostLong("providers", len(info.Providers), mostEntries)
	for i, provider := range info.Providers {
		p.text("providers["+strconv.Itoa(i)+"]", provider)
	}
	p.limits(&info.Limits)
	p.atMostLong("options", len(info.Options), mostEntries)
	seen := map[string]bool{}
	for i, o := range info.Options {
		option := p.index("options", i)
		option.named("name", o.Name, optionName)
		option.oneOf("type", string(o.Type), optionTypes)
		if seen[o.Name] {
			option.wrong("name", quoted(o.Name), "each once")
		}
		seen[o.Name] = true
		if o.Min > o.Max {
			option.wrong("min", strconv.FormatInt(o.Min, 10), "at most max, "+strconv.FormatInt(o.Max, 10))
		}
		if c.first != nil { // ParseOptions needs a valid schema
			break
		}
		if _, err := transport.ParseOptions([]transport.Option{o}, nil); err != nil {
			option.wrong("default", quoted(o.Default), err.Error())
		}
	}
	if c.first == nil && len(info.Matched) > 0 {
		if _, err := transport.ParseOptions(info.Options, info.Matched); err != nil {
			p.wrong("matched", strconv.Itoa(len(info.Matched))+" options", err.Error())
		}
	}
	return c.err()
}

// groups requires groups that lists know, each once.
func (p part) groups(groups []transport.Group) {
	var known []string
	for _, group := range transport.Groups() {
		known = append(known, string(group))
	}
	for i, group := range groups {
		name := "groups[" + strconv.Itoa(i) + "]"
		if p.oneOf(name, string(group), known); slices.Contains(groups[:i], group) {
			p.wrong(name, quoted(string(group)), "each once")
		}
		if p.first != nil {
			return
		}
	}
}

// named requires a name.
func (p part) named(name, value string, syntax *regexp.Regexp) {
	if p.text(name, value); !syntax.MatchString(value) {
		p.wrong(name, quoted(value), "a name such as \"shm\" or \"tx-depth\"")
	}
}

// Setup checks what one round of the microbenchmark of setups took.
func Setup(s *record.RankSetup, closeNS uint64) error {
	c := new(checker)
	p := c.at("setup")
	setup(p, s)
	p.atMost("close_ns", closeNS, exact)
	return c.err()
}

// Measurement checks a reading of a microbenchmark.
func Measurement(m *transport.Measurement) error {
	c := new(checker)
	p := c.at("measurement")
	p.text("name", m.Name)
	within(p, "size", m.Size, 0, exact)
	within(p, "latency_ns", m.Latency, 0, exact)
	within(p, "latency_p99_ns", m.LatencyP99, 0, exact)
	within(p, "floor_ns", m.Floor, 0, exact)
	within(p, "rate_floor_ns", m.RateFloor, 0, exact)
	within(p, "rate", m.Rate, 0, exact)
	within(p, "bandwidth", m.Bandwidth, 0, exact)
	within(p, "samples", m.Samples, 0, exact)
	return c.err()
}
