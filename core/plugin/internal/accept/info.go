package accept

import (
	"fmt"
	"regexp"

	"transportbench/core/transport"
)

// Names of transports and of their options.
var (
	transportName = regexp.MustCompile(`^[a-z0-9]+$`)
	optionName    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Info checks what a transport says of itself before it is opened.
func Info(info *transport.Info) error {
	h := &host{texts: map[string][]string{"groups": nil}}
	for _, group := range transport.Groups() {
		h.texts["groups"] = append(h.texts["groups"], string(group))
	}
	if err := h.check("info", info); err != nil {
		return err
	}
	const name = `a name such as "tx-depth"`
	if !transportName.MatchString(info.Name) {
		return wrong("info.name", quoted(info.Name), name)
	}
	for i, o := range info.AllMicroOptions() {
		place := fmt.Sprintf("info.options[%d]", i)
		switch {
		case !optionName.MatchString(o.Name):
			return wrong(place+".name", quoted(o.Name), name)
		case o.Min > o.Max:
			return wrong(place+".min", fmt.Sprint(o.Min), fmt.Sprint("at most max, ", o.Max))
		}
		if _, err := transport.ParseOptions([]transport.Option{o}, nil); err != nil {
			return wrong(place+".default", quoted(o.Default), err.Error())
		}
	}
	for place, options := range map[string]map[string]string{
		"info.matched": info.Matched, "info.per_packet": info.PerPacket,
	} {
		if _, err := transport.ParseOptions(info.Options, options); err != nil {
			return wrong(place, fmt.Sprint(len(options), " options"), err.Error())
		}
	}
	for i := range info.References {
		if err := info.References[i].Check(); err != nil {
			return wrong(fmt.Sprintf("info.references[%d]", i), "a reference", err.Error())
		}
	}
	if err := info.Roles.Check(info.Options); err != nil {
		return wrong("info.roles", "a role", err.Error())
	}
	return nil
}

// Setup checks what one round of the microbenchmark of setups took: a pointer to a struct with a
// [record.RankSetup].
func Setup(reading any) error { return new(host).check("setup", reading) }

// Measurement checks a reading of a microbenchmark.
func Measurement(m *transport.Measurement) error { return new(host).check("measurement", m) }
