package options

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"transportbench/core/base/config"
)

// option is one field of a run's configuration, as flags, variables and files
// write it.
type option struct {
	name string
	kind string // shown in help behind the name
	help string
	read func(c *config.Config, text string) error
	show func(c *config.Config) string
}

// The options that other ones stand in for.
const (
	keyValueSize     = "value-size"
	keyBytesPerToken = "bytes-per-token"
	keyReadRatio     = "read-ratio"
	keyMix           = "mix"
	keyPattern       = "pattern"
)

var operations = orList(config.OpNames())

// configOptions has every option of a run in the order in which they stand in
// the help.
var configOptions = []option{
	profileOption(),
	text("topology", "how ranks call each other: client-server, mesh-direct or mesh-proxied", func(c *config.Config) *string { return &c.Topology }),
	number("ranks", "processes", func(c *config.Config) *int { return &c.Ranks }),
	number("daemons", "polling threads of each serving rank", func(c *config.Config) *int { return &c.Daemons }),
	number("clients", "client threads of each calling rank", func(c *config.Config) *int { return &c.Clients }),
	number("in-flight", "calls in flight of each client", func(c *config.Config) *int { return &c.InFlight }),
	number("keys", "distinct keys of each serving rank", func(c *config.Config) *int { return &c.Keys }),
	{
		name: keyValueSize, kind: "sizes", help: "bytes of a value: 32, 4KiB, uniform:64-4KiB, or file:PATH, a histogram with a size and a weight on each line; --payload is the same",
		read: readSizes,
		show: func(c *config.Config) string { return c.ValueSize.String() },
	},
	number("tokens-per-block", "tokens that a value stands for; 0 is none", func(c *config.Config) *int { return &c.TokensPerBlock }),
	setter(keyBytesPerToken, "size", "makes values of tokens-per-block times as many bytes; 0 leaves it to value-size", func(c *config.Config) setShower { return &c.BytesPerToken }),
	fraction(keyReadRatio, "share of reads, 0 to 1; the rest are writes", func(c *config.Config) *float64 { return &c.ReadRatio }),
	setter(keyMix, "op:share,...", "share of each operation, for read-ratio: read:0.95,insert:0.05; of "+operations, func(c *config.Config) setShower { return &c.Mix }),
	setter(keyPattern, "op:count,...", "operations in a fixed cycle, for read-ratio: lookup:7,read:6,write:3; one cycle is an iteration", func(c *config.Config) setShower { return &c.Pattern }),
	text("distribution", "of keys: "+orList(config.Distributions()), func(c *config.Config) *string { return &c.Distribution }),
	fraction("theta", "skew of zipfian and latest, between 0 and 1", func(c *config.Config) *float64 { return &c.Theta }),
	fraction("hot-keys", "share of the keys that hotspot makes hot", func(c *config.Config) *float64 { return &c.HotKeys }),
	fraction("hot-share", "share of the requests that go to hot keys", func(c *config.Config) *float64 { return &c.HotShare }),
	{
		name: "seed", kind: "int", help: "of the workload; the same seed gives the same ops",
		read: func(c *config.Config, text string) (err error) {
			c.Seed, err = strconv.ParseUint(text, 10, 64)
			return isNot("a number from 0", text, err)
		},
		show: func(c *config.Config) string { return strconv.FormatUint(c.Seed, 10) },
	},
	{
		name: "remote-share", kind: "share", help: "share of requests to other ranks than the client's own in a mesh, 0 to 1; hash leaves it to the keys",
		read: func(c *config.Config, text string) error { return c.RemoteShare.Set(text) },
		show: func(c *config.Config) string { return c.RemoteShare.String() },
	},
	{
		name: "rate", kind: "op/s", help: "open-loop load of all clients together: 5000, 200k, 1.5M; closed has no schedule",
		read: func(c *config.Config, text string) error { return c.Rate.Set(text) },
		show: func(c *config.Config) string { return c.Rate.String() },
	},
	text("arrival", "gaps of an open-loop load: poisson or constant", func(c *config.Config) *string { return &c.Arrival }),
	text("flush", "when the doorbell rings: once a loop, or immediate, after each message", func(c *config.Config) *string { return &c.Flush }),
	text("idle", "what a thread with nothing to do does: auto, spin, yield or park", func(c *config.Config) *string { return &c.Idle }),
	toggle("pin", "pin each polling thread to a core", func(c *config.Config) *bool { return &c.Pin }),
	duration("warmup", "most time for the load before the first repeat, which ends when throughput is steady", func(c *config.Config) *config.Duration { return &c.Warmup }),
	duration("duration", "of one repeat", func(c *config.Config) *config.Duration { return &c.Duration }),
	number("repeats", "windows to measure; fewer than 6 give no 95% interval", func(c *config.Config) *int { return &c.Repeats }),
	number("verify-every", "verify one checksum in so many; 1 verifies all", func(c *config.Config) *int { return &c.VerifyEvery }),
	number("sample-every", "take one latency in so many; 0 keeps the cost of it under 2%", func(c *config.Config) *int { return &c.SampleEvery }),
	duration("burn", "time that a client burns before each call: a slow-down of known size, to test comparisons with", func(c *config.Config) *config.Duration { return &c.Burn }),
}

func profileOption() option {
	var names []string
	for _, p := range config.Profiles() {
		names = append(names, p.Name)
	}
	return text("profile", "sets several options at once: "+orList(names),
		func(c *config.Config) *string { return &c.Profile })
}

func text(name, help string, field func(*config.Config) *string) option {
	return option{name, "string", help,
		func(c *config.Config, text string) error { *field(c) = text; return nil },
		func(c *config.Config) string { return *field(c) }}
}

func number(name, help string, field func(*config.Config) *int) option {
	return option{name, "int", help,
		func(c *config.Config, text string) (err error) {
			*field(c), err = strconv.Atoi(text)
			return isNot("a whole number", text, err)
		},
		func(c *config.Config) string { return strconv.Itoa(*field(c)) }}
}

func fraction(name, help string, field func(*config.Config) *float64) option {
	return option{name, "float", help,
		func(c *config.Config, text string) (err error) {
			*field(c), err = strconv.ParseFloat(text, 64)
			return isNot("a number", text, err)
		},
		func(c *config.Config) string { return strconv.FormatFloat(*field(c), 'g', -1, 64) }}
}

func toggle(name, help string, field func(*config.Config) *bool) option {
	return option{name, kindBool, help,
		func(c *config.Config, text string) (err error) {
			*field(c), err = parseBool(text)
			return err
		},
		func(c *config.Config) string { return strconv.FormatBool(*field(c)) }}
}

func duration(name, help string, field func(*config.Config) *config.Duration) option {
	return option{name, "duration", help,
		func(c *config.Config, text string) error {
			return isNot("a duration such as 500ms or 1.5s", text, field(c).UnmarshalText([]byte(text)))
		},
		func(c *config.Config) string { return field(c).String() }}
}

// setShower is a value that reads and writes itself.
type setShower interface {
	Set(text string) error
	String() string
}

func setter(name, kind, help string, field func(*config.Config) setShower) option {
	return option{name, kind, help,
		func(c *config.Config, text string) error { return field(c).Set(text) },
		func(c *config.Config) string { return field(c).String() }}
}

// orList joins names as a sentence does.
func orList(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// prefixFile begins a value of value-size that names a histogram's file.
const prefixFile = "file:"

// readSizes reads a histogram's file too: a result has what was in it.
func readSizes(c *config.Config, text string) error {
	path, found := strings.CutPrefix(text, prefixFile)
	if !found {
		return c.ValueSize.Set(text)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	defer f.Close()
	if c.ValueSize, err = config.ReadHistogram(f); err != nil {
		return fmt.Errorf("%s: %w", path, cause(err))
	}
	return nil
}

// cause leaves out what an error of the file system says of the path.
func cause(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

const kindBool = "bool"

func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	return b, isNot("true or false", text, err)
}

// isNot replaces a parser's error by one for users.
func isNot(what, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q is not %s", text, what)
}
