package transport

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reference is a reference tool that measures the medium or the library under a transport.
// With --witness, the host runs it beside the transport, between the same processors and hosts.
//
// The arguments of Server and Client and the values of Environment may contain placeholders:
//
//	{address}   IP address of the server's host
//	{port}      free port of the server's host
//	{size}      bytes of a message: the larger payload of a call, at least Pad
//	{messages}  number of messages that take a fraction of a second
//	{in-flight} calls in flight
//	{provider}  Properties.Provider
//	{streams}   parallel connections between two workers, by Roles.Streams; 1 without that option
//	{NAME}      value with that name in Properties.Reference, of the rank at that end
//
// An argument or a variable is left out if a placeholder in it has no value.
type Reference struct {
	// the program, found in $PATH
	Tool string `json:"tool" bound:">=1,<=256"`
	// Debian's package that has it, which users are told to install
	Package string `json:"package" bound:">=1,<=256"`
	// command line that prints the version
	Version []string `json:"version" bound:">=1,<=16,each>=1,each<=256"`
	// Name names the readings. It is that of the tool and of its test, such as "ucx_perftest
	// ucp_am_lat".
	Name string `json:"name" bound:">=1,<=256"`

	// Medium is the medium that the tool measures, and Provider the provider; empty for any.
	Medium   string `json:"medium,omitempty" bound:"<=256"`
	Provider string `json:"provider,omitempty" bound:"<=256"`
	// Depth is for how many calls in flight the tool is the witness.
	Depth Depth `json:"depth" bound:"=one|several|any"`
	// MinPayload and MaxPayload bound the payloads, in bytes, that the tool measures. A MaxPayload
	// of 0 is no bound.
	MinPayload int `json:"min_payload,omitempty" bound:"<=exact"`
	MaxPayload int `json:"max_payload,omitempty" bound:"<=exact"`
	// Pad is the size in bytes of the smallest message that the tool sends. It takes the place of
	// smaller payloads.
	Pad int `json:"pad,omitempty" bound:"<=exact"`

	// Server and Client are the arguments of the tool at the two ends.
	Server      []string          `json:"server" bound:"<=64,each<=256"`
	Client      []string          `json:"client" bound:"<=64,each<=256"`
	Environment map[string]string `json:"environment,omitempty" bound:"<=64,key>=1,key<=256,each<=256"`
	// Takes is about how long one reading takes, with the start of both ends.
	Takes time.Duration `json:"takes_ns" bound:"<=int64"`

	// Reading is a regular expression that finds the figure in what the client prints; the last
	// match counts. Its group "value" is the figure, "samples" the number of messages behind it,
	// with or without a k for thousands, and "bytes" their bytes if the tool prints no number of
	// messages.
	Reading string `json:"reading" bound:">=1,<=4096"`
	// Quantity is what the figure is, and Unit what one of it is in the quantity's unit.
	Quantity Quantity `json:"quantity" bound:"=half_round_trip|message_rate|byte_rate"`
	Unit     float64  `json:"unit" bound:"<=exact"`
}

// Covers reports whether the reference measures a medium with a provider.
func (r *Reference) Covers(medium, provider string) bool {
	return (r.Medium == "" || r.Medium == medium) && (r.Provider == "" || r.Provider == provider)
}

// Depth is a number of calls in flight.
type Depth string

// The depths.
const (
	DepthOne     Depth = "one"
	DepthSeveral Depth = "several"
	DepthAny     Depth = "any"
)

// Quantity is what a reference tool measures.
type Quantity string

// The quantities.
const (
	HalfRoundTrip Quantity = "half_round_trip" // nanoseconds
	MessageRate   Quantity = "message_rate"    // messages per second, in one direction
	ByteRate      Quantity = "byte_rate"       // bytes per second, in one direction
)

// Figure is what a reference tool printed.
type Figure struct {
	Value   float64 // of [Reference.Quantity]
	Samples int     // 0 if the tool prints bytes instead
	Bytes   float64
}

// Find returns the figure in what the client printed; found is false if there is none.
func (r *Reference) Find(output []byte) (f Figure, found bool) {
	pattern, err := regexp.Compile(r.Reading)
	if err != nil {
		return f, false
	}
	matches := pattern.FindAllSubmatch(output, -1)
	if len(matches) == 0 {
		return f, false
	}
	group := func(name string) string {
		if i := pattern.SubexpIndex(name); i >= 0 {
			return string(matches[len(matches)-1][i])
		}
		return ""
	}
	f.Value, err = strconv.ParseFloat(group("value"), 64)
	f.Value *= r.Unit
	thousands, scaled := strings.CutSuffix(group("samples"), "k")
	f.Samples, _ = strconv.Atoi(thousands)
	if scaled {
		f.Samples *= 1000
	}
	f.Bytes, _ = strconv.ParseFloat(group("bytes"), 64)
	return f, err == nil && f.Value > 0
}

// Check returns an error if the reference cannot be used.
func (r *Reference) Check() error {
	pattern, err := regexp.Compile(r.Reading)
	switch {
	case err != nil:
		return fmt.Errorf("reference %s: its reading: %w", r.Name, err)
	case pattern.SubexpIndex("value") < 0:
		return fmt.Errorf(`reference %s: its reading has no group "value"`, r.Name)
	case pattern.SubexpIndex("samples") < 0 && pattern.SubexpIndex("bytes") < 0:
		return fmt.Errorf(`reference %s: its reading has no group "samples" or "bytes"`, r.Name)
	case r.Tool == "" || r.Package == "" || r.Name == "" || len(r.Version) == 0:
		return fmt.Errorf("reference %s: it needs a tool, a package, a name and a version", r.Name)
	case !(r.Unit > 0) || r.Takes <= 0:
		return fmt.Errorf("reference %s: it needs a unit and the time that a reading takes", r.Name)
	}
	return nil
}
