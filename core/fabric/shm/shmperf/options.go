package shmperf

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"transportbench/core/fabric/pow2"
	"transportbench/core/transport"
)

// Options configure the measurements.
type Options struct {
	Duration time.Duration // of each reading
	// Segments are the numbers of segments among which lookup finds the one that holds an address,
	// and SegmentSize is the size of each in bytes, a power of two.
	Segments    []int
	SegmentSize int
	// Allocations are the sizes of the segments of allocate, of which the largest that fit are
	// measured, and Transfers those of the payloads of transfer.
	Allocations, Transfers []int
	// Reading begins the names of the only readings of spsc and mesh, such as
	// "spsc/lamport/stream/threads", for a profiler of the process; "" is all.
	Reading string
}

// Schema lists the options that a user can set, with their defaults.
var Schema = []transport.Option{
	{Name: "segments", Type: transport.TypeString, Default: "1,10,100,1000,10000",
		Help: "lookup: numbers of segments, a comma list"},
	{Name: "segment-size", Type: transport.TypeSize, Default: "64MiB", Min: pageSize, Max: 1 << 40,
		Help: "lookup: size of each segment, a power of two"},
	{Name: "allocations", Type: transport.TypeString, Default: "4KiB,64KiB,1MiB,16MiB,256MiB,1GiB",
		Help: "allocate: sizes of segments, a comma list"},
	{Name: "transfers", Type: transport.TypeString, Default: "4KiB,64KiB,1MiB,16MiB,64MiB",
		Help: "transfer: sizes of payloads, a comma list of multiples of 64"},
	{Name: transport.OptionReading, Type: transport.TypeString,
		Help: "spsc, mesh: only the readings whose names begin with this"},
}

const (
	maxSegments = 1 << 20
	maxBytes    = 16 << 30
	minBytes    = 64 // a cache line
)

// ParseOptions returns the options of values that have [Schema].
func ParseOptions(v transport.Values, d time.Duration) (o Options, err error) {
	o = Options{Duration: d, SegmentSize: v.Size("segment-size"),
		Reading: v.String(transport.OptionReading)}
	if !pow2.Is(o.SegmentSize) {
		return o, wrong("segment-size", "%s is no power of two",
			transport.FormatSize(int64(o.SegmentSize)))
	}
	o.Segments, err = parseList(v, "segments", "a number", 1, maxSegments, strconv.Atoi,
		strconv.Itoa)
	if err != nil {
		return o, err
	}
	for _, n := range o.Segments {
		if n > highest/maxSpread/o.SegmentSize {
			return o, wrong("segments", "%d segments of %s do not fit into an address space", n,
				transport.FormatSize(int64(o.SegmentSize)))
		}
	}
	size := func(text string) (int, error) {
		n, err := transport.ParseSize(text)
		return int(n), err
	}
	format := func(n int) string { return transport.FormatSize(int64(n)) }
	o.Allocations, err = parseList(v, "allocations", "a size", pageSize, maxBytes, size, format)
	if err != nil {
		return o, err
	}
	o.Transfers, err = parseList(v, "transfers", "a size", minBytes, maxBytes, size, format)
	for _, n := range o.Transfers {
		if err == nil && n%minBytes != 0 {
			err = wrong("transfers", "%d is no multiple of %d", n, minBytes)
		}
	}
	return o, err
}

// parseList reads a comma list of what, from low to high.
func parseList(v transport.Values, name, what string, low, high int,
	parse func(string) (int, error), format func(int) string) (list []int, err error) {
	for text := range strings.SplitSeq(v.String(name), ",") {
		n, err := parse(strings.TrimSpace(text))
		if err != nil || n < low || n > high {
			return nil, wrong(name, "%q is not %s from %s to %s", text, what, format(low),
				format(high))
		}
		list = append(list, n)
	}
	return list, nil
}

func wrong(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}
