package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/matrix"
	"transportbench/core/fabric/suggest"
)

// Traffic is a pattern of traffic: which rank each call goes to. The zero value leaves that to the
// topology and the keys.
type Traffic string

// The patterns of traffic.
const (
	// TrafficIncast, written "incast:N": N ranks call one.
	TrafficIncast = "incast"
	// TrafficFanOut: one rank calls all others in turn.
	TrafficFanOut = "fan-out"
	// TrafficAllToAll: every rank calls all others in turn, each beginning with the next rank.
	TrafficAllToAll = "all-to-all"
	// TrafficHotspot, written "hotspot:SHARE": every rank calls rank 0 with that share of its
	// calls, and the others with the rest.
	TrafficHotspot = "hotspot"
	// TrafficStorm, written "storm:RATE": the ranks of client-server, while besides their load so
	// many connections a second are made, used once and dropped.
	TrafficStorm = "storm"
	// TrafficMatrix, written "matrix:FILE" and resolved to "matrix:" and the rows: every rank calls
	// the others by the weights of its row.
	TrafficMatrix = "matrix"
)

func trafficNames() []string {
	return []string{TrafficIncast, TrafficFanOut, TrafficAllToAll, TrafficHotspot, TrafficStorm,
		TrafficMatrix}
}

// The range of a storm's rate.
const minStorm, maxStorm = 0.1, 10_000

// TrafficNames returns the patterns of traffic as users write them.
func TrafficNames() []string {
	return []string{TrafficIncast + ":N", TrafficFanOut, TrafficAllToAll, TrafficHotspot + ":SHARE",
		TrafficStorm + ":RATE", TrafficMatrix + ":FILE"}
}

// IsTraffic reports whether text names a pattern of traffic, valid or not.
func IsTraffic(text string) bool {
	name, _, _ := strings.Cut(text, ":")
	return slices.Contains(trafficNames(), name)
}

// Name returns the pattern without its number.
func (t Traffic) Name() string {
	name, _, _ := strings.Cut(string(t), ":")
	return name
}

// number returns what follows the name, which Set has checked.
func (t Traffic) number() float64 {
	_, text, _ := strings.Cut(string(t), ":")
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

// Share returns the share of the calls to the hot rank, or 0.
func (t Traffic) Share() float64 {
	if t.Name() != TrafficHotspot {
		return 0
	}
	return t.number()
}

// StormRate returns the connections per second of a storm, or 0.
func (t Traffic) StormRate() float64 {
	if t.Name() != TrafficStorm {
		return 0
	}
	return t.number()
}

// Matrix returns the matrix of traffic, or nil for another pattern.
func (t Traffic) Matrix() matrix.Matrix {
	name, text, _ := strings.Cut(string(t), ":")
	if name != TrafficMatrix {
		return nil
	}
	m, _ := matrix.Parse(text) // Set has checked it
	return m
}

// Mesh reports whether the pattern needs ranks that serve and call.
func (t Traffic) Mesh() bool {
	return slices.Contains([]string{TrafficAllToAll, TrafficHotspot, TrafficMatrix}, t.Name())
}

// trafficRanks is the number of ranks of a pattern that does not determine it.
const trafficRanks = 4

// DefaultRanks returns the number of ranks of the pattern if the user does not choose it.
func (t Traffic) DefaultRanks() int {
	switch t.Name() {
	case TrafficIncast:
		return int(t.number()) + 1
	case TrafficStorm:
		return 2
	case TrafficMatrix:
		return len(t.Matrix())
	}
	return trafficRanks
}

func (t Traffic) String() string { return cmp.Or(string(t), none) }

// Set parses the format of String.
func (t *Traffic) Set(text string) error {
	*t = ""
	if text == "" || text == none {
		return nil
	}
	name, number, has := strings.Cut(text, ":")
	if !IsTraffic(name) {
		names := TrafficNames()
		return fmt.Errorf("%q is not one of %s%s", shorten(text), strings.Join(names, ", "),
			suggest.For(name, trafficNames()))
	}
	switch name {
	case TrafficIncast:
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n >= MaxRanks {
			return fmt.Errorf("%q: the number of calling ranks is not from 1 to %d; use %s:8",
				shorten(text), MaxRanks-1, name)
		}
		number = strconv.Itoa(n)
	case TrafficHotspot:
		share, err := strconv.ParseFloat(number, 64)
		if err != nil || !(share > 0 && share <= 1) {
			return fmt.Errorf(
				"%q: the share of the hot rank is not above 0 and at most 1; use %s:0.5",
				shorten(text), name)
		}
		number = strconv.FormatFloat(share, 'g', -1, 64)
	case TrafficStorm:
		rate, err := strconv.ParseFloat(number, 64)
		if err != nil || !(rate >= minStorm && rate <= maxStorm) {
			return fmt.Errorf("%q: the connections per second are not from %g to %d; use %s:50",
				shorten(text), minStorm, maxStorm, name)
		}
		number = strconv.FormatFloat(rate, 'f', -1, 64)
	case TrafficMatrix:
		m, err := matrix.Parse(number)
		if err != nil {
			return fmt.Errorf("%q: %w", shorten(text), err)
		}
		number = m.String()
	default:
		if has {
			return fmt.Errorf("%q: %s has no number; leave out %q", shorten(text), name,
				shorten(":"+number))
		}
		*t = Traffic(name)
		return nil
	}
	*t = Traffic(name + ":" + number)
	return nil
}

// readTraffic reads a pattern of traffic. It reads the file of a matrix at once, so that results
// have its content.
func readTraffic(t *Traffic, text string, readFile ReadFile) error {
	path, found := strings.CutPrefix(text, TrafficMatrix+":")
	if !found || readFile == nil || strings.Contains(path, ":") {
		return t.Set(text)
	}
	content, err := readFile(path, matrix.MaxFile)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m, err := matrix.Read(content)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return t.Set(TrafficMatrix + ":" + m.String())
}

// CallsShare returns the share of the load that the clients of a calling rank send, 0 if they call
// none.
func (c *Config) CallsShare(rank int) float64 {
	if m := c.Traffic.Matrix(); m != nil {
		return m.Share(rank)
	}
	return 1 / float64(max(c.CallingRanks(), 1))
}

// Turns returns the number of ranks that a client calls in turn, or 0 if it draws them.
func (c *Config) Turns() int {
	if name := c.Traffic.Name(); name == TrafficFanOut || name == TrafficAllToAll {
		return c.Ranks - 1
	}
	return 0
}

// Iteration returns the number of operations of an iteration, or 0 if the load has none. Without a
// pattern of operations, it is a call to each of the ranks that are called in turn.
func (c *Config) Iteration() int {
	if c.Handoff != "" {
		return c.handoffOperations()
	}
	if len(c.Pattern) > 0 {
		return c.Pattern.Len()
	}
	return c.Turns()
}

// checkTraffic checks a pattern of traffic against the ranks.
func checkTraffic(c *Config) *Error {
	if c.Traffic == "" {
		return nil
	}
	minRanks := 2
	if name := c.Traffic.Name(); name == TrafficFanOut || name == TrafficHotspot {
		minRanks = 3
	}
	switch {
	case c.Traffic.Mesh() && !c.Mesh():
		return &Error{"traffic", fmt.Sprintf("in %s every rank serves and calls; use --topology "+
			"mesh-direct or mesh-proxied, or leave --topology out", c.Traffic)}
	case !c.Traffic.Mesh() && c.Mesh():
		return &Error{"traffic", fmt.Sprintf("in %s a rank either serves or calls; use "+
			"--topology client-server or leave --topology out", c.Traffic)}
	case c.Traffic.Name() == TrafficMatrix && c.Ranks != c.Traffic.DefaultRanks():
		return &Error{"traffic",
			fmt.Sprintf("the matrix has %d ranks, and not %d; leave --ranks out",
				c.Traffic.DefaultRanks(), c.Ranks)}
	case c.Traffic.Name() == TrafficIncast && c.Ranks != c.Traffic.DefaultRanks():
		return &Error{"traffic",
			fmt.Sprintf("%s has %d ranks with the one that serves, and not %d; leave --ranks out",
				c.Traffic, c.Traffic.DefaultRanks(), c.Ranks)}
	case c.Ranks < minRanks:
		return &Error{"traffic", fmt.Sprintf("%s needs %d ranks or more; use --ranks %d", c.Traffic,
			minRanks, trafficRanks)}
	}
	return nil
}
