package options

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
)

// option is one field of a run's configuration, written as a flag, a variable
// or a key of a file.
type option struct {
	name string
	kind string // shown in help after the name
	help string
	read func(c *config.Config, text string) error
	show func(c *config.Config) string
}

// The options of the integrity checks and of the classes of traffic.
const (
	KeyTrack = "track"
	KeyClass = "class"
)

// The options that replace each other.
const (
	keyValueSize     = "value-size"
	keyBytesPerToken = "bytes-per-token"
	keyReadRatio     = "read-ratio"
	keyMix           = "mix"
	keyPattern       = "pattern"
	keyService       = "service"
	keyTraffic       = "traffic"
	keyClients       = "clients"
	keyInFlight      = "in-flight"
	keyRate          = "rate"
	keyTopology      = "topology"
	keyRanks         = "ranks"
	keyVerifyEvery   = "verify-every"
	keyWarmup        = "warmup"
	keyReadDelay     = "read-delay"
	keyWriteDelay    = "write-delay"
	KeyNetwork       = "network"
	keyServers       = "servers"
	keyInterleave    = "interleave"
	keyDelegate      = "delegate"
	KeyCPUs          = "cpus"
	keyNUMA          = "numa"
)

var operations = orList(config.OpNames())

// configOptions has every option of a run, in the order of the help.
var configOptions = []option{
	profileOption(),
	text(keyTopology, "how ranks call each other: client-server, mesh-direct or mesh-proxied", func(c *config.Config) *string { return &c.Topology }),
	number(keyRanks, "number of processes", func(c *config.Config) *int { return &c.Ranks }),
	setter(keyServers, "int", "client-server: ranks that serve, the first ones; the others call", func(c *config.Config) setShower { return &c.Servers }),
	number("daemons", "polling threads per serving rank", func(c *config.Config) *int { return &c.Daemons }),
	number(keyClients, "client threads per calling rank", func(c *config.Config) *int { return &c.Clients }),
	number(keyInFlight, "calls in flight per client", func(c *config.Config) *int { return &c.InFlight }),
	setter(keyService, "name", "what a daemon does: store (reads and writes of a key-value store), echo (returns the message) or sink (drops writes)", func(c *config.Config) setShower { return &c.Service }),
	number("keys", "distinct keys per serving rank", func(c *config.Config) *int { return &c.Keys }),
	{
		name: keyValueSize, kind: "sizes", help: "bytes of a value: 32, 4KiB, uniform:64-4KiB, or file:PATH with a size and a weight per line; also --payload",
		read: readSizes,
		show: func(c *config.Config) string { return c.ValueSize.String() },
	},
	number("tokens-per-block", "tokens per value; 0 is none", func(c *config.Config) *int { return &c.TokensPerBlock }),
	setter(keyBytesPerToken, "size", "makes a value tokens-per-block times as large; 0 uses value-size", func(c *config.Config) setShower { return &c.BytesPerToken }),
	fraction(keyReadRatio, "share of reads, 0 to 1; the rest are writes", func(c *config.Config) *float64 { return &c.ReadRatio }),
	setter(keyMix, "op:share,...", "share of each operation, replaces read-ratio: read:0.95,insert:0.05; operations are "+operations, func(c *config.Config) setShower { return &c.Mix }),
	setter(keyPattern, "op:count,...", "fixed cycle of operations, replaces read-ratio: lookup:7,read:6,write:3; one cycle is an iteration", func(c *config.Config) setShower { return &c.Pattern }),
	text("distribution", "distribution of keys: "+orList(config.Distributions()), func(c *config.Config) *string { return &c.Distribution }),
	fraction("theta", "skew of zipfian and latest, between 0 and 1", func(c *config.Config) *float64 { return &c.Theta }),
	fraction("hot-keys", "hotspot: share of keys that are hot", func(c *config.Config) *float64 { return &c.HotKeys }),
	fraction("hot-share", "hotspot: share of requests to hot keys", func(c *config.Config) *float64 { return &c.HotShare }),
	seed("seed", "seed of the workload; the same seed gives the same operations", func(c *config.Config) *uint64 { return &c.Seed }),
	setter(keyReadDelay, "delay", "time that the storage takes to read a value: "+orList(config.DelayForms())+" (median and p99); lookups do not wait for it", func(c *config.Config) setShower { return &c.ReadDelay }),
	setter(keyWriteDelay, "delay", "time that the storage takes to write a value, in the same forms", func(c *config.Config) setShower { return &c.WriteDelay }),
	number("storage-lanes", "values that the storage of a daemon serves at a time; 0 is no limit", func(c *config.Config) *int { return &c.StorageLanes }),
	setter(KeyNetwork, "impairments", "network between the ranks, which are then in network namespaces (needs root): "+orList(config.NetworkForms()), func(c *config.Config) setShower { return &c.Network }),
	setter("remote-share", "share", "mesh: share of requests to other ranks, 0 to 1; hash leaves it to the keys", func(c *config.Config) setShower { return &c.RemoteShare }),
	setter(keyTraffic, "pattern", "which rank each call goes to, instead of the keys: "+orList(config.TrafficNames())+"; also --pattern", func(c *config.Config) setShower { return &c.Traffic }),
	setter(KeyClass, "name:size,...", "class of traffic, repeatable: some clients of each rank with a load of their own, as in rpc:64B,in-flight=1,slo=50us or bulk:1MiB,rate=500,clients=2", func(c *config.Config) setShower { return &c.Classes }),
	setter(keyRate, "op/s", "open-loop load of all clients together: 5000, 200k, 1.5M, or max to find the capacity; closed keeps calls in flight instead", func(c *config.Config) setShower { return &c.Rate }),
	text("arrival", "gaps of an open-loop load: poisson or constant", func(c *config.Config) *string { return &c.Arrival }),
	text("flush", "when the doorbell rings: loop (once per iteration), or immediate (after each message)", func(c *config.Config) *string { return &c.Flush }),
	setter(keyInterleave, "order", "mesh-proxied: none (a daemon polls ranks and clients, then sends) or send-poll (it sends after each of the two)", func(c *config.Config) setShower { return &c.Interleave }),
	toggle(keyDelegate, "a client calls one daemon of a rank, which passes requests on to the daemon that owns the key", func(c *config.Config) *bool { return &c.Delegate }),
	text("idle", "what a thread with nothing to do does: auto, spin, yield or park", func(c *config.Config) *string { return &c.Idle }),
	toggle("pin", "pin each polling thread to a core", func(c *config.Config) *bool { return &c.Pin }),
	setter(KeyCPUs, "role=list,...", "processors of the polling threads, such as daemons=2,clients=3-18; those of a role are taken in turn, in the order of the ranks; auto spreads threads over cores", func(c *config.Config) setShower { return &c.CPUs }),
	setter(keyNUMA, "node", "use the processors of one NUMA node; any uses all", func(c *config.Config) setShower { return &c.NUMA }),
	duration(keyWarmup, "longest load before the first repeat; ends when throughput is steady", func(c *config.Config) *config.Duration { return &c.Warmup }),
	duration("duration", "time of one repeat", func(c *config.Config) *config.Duration { return &c.Duration }),
	number("repeats", "windows to measure; fewer than 6 give no 95% interval", func(c *config.Config) *int { return &c.Repeats }),
	number("launches", "starts of the ranks, each for a part of the repeats; 0 starts them for each repeat, 1 only once", func(c *config.Config) *int { return &c.Launches }),
	setter(KeyTrack, "name", "integrity checks: shipped (each transport as by default) or matched (all payloads verified by the runtime, none by a transport)", func(c *config.Config) setShower { return &c.Track }),
	number(keyVerifyEvery, "verify one value in this many in full; 1 verifies all", func(c *config.Config) *int { return &c.VerifyEvery }),
	number("sample-every", "time one operation in this many; 0 keeps the cost under 2%", func(c *config.Config) *int { return &c.SampleEvery }),
	duration("burn", "time that a client burns before each call, to test comparisons with a known slowdown", func(c *config.Config) *config.Duration { return &c.Burn }),
}

func profileOption() option {
	var names []string
	for _, p := range config.Profiles() {
		names = append(names, p.Name)
	}
	return text(keyProfile, "sets several options at once: "+orList(names), func(c *config.Config) *string { return &c.Profile })
}

// Names returns the options of every run.
func Names() []string {
	var names []string
	for _, o := range configOptions {
		names = append(names, o.name)
	}
	return names
}

// Values returns the values of an option that has a fixed list of them, for completion.
func Values(name string) []string {
	switch name {
	case keyTopology:
		return []string{config.TopologyClientServer, config.TopologyMeshDirect, config.TopologyMeshProxied}
	case keyService:
		return []string{config.ServiceStore.String(), config.ServiceEcho.String(), config.ServiceSink.String()}
	case "distribution":
		return config.Distributions()
	case "arrival":
		return []string{config.ArrivalPoisson, config.ArrivalConstant}
	case keyTraffic:
		return config.TrafficNames()
	case KeyNetwork:
		return []string{"none", "loss=0%", "loss=1%", "delay=50us"}
	case keyReadDelay, keyWriteDelay:
		return config.DelayForms()
	case "flush":
		return []string{config.FlushLoop, config.FlushImmediate}
	case keyInterleave:
		return config.Interleaves()
	case "idle":
		return []string{config.IdleAuto, config.IdleSpin, config.IdleYield, config.IdlePark}
	case KeyTrack:
		return []string{config.TrackShipped.String(), config.TrackMatched.String()}
	case keyRate:
		return []string{config.Rate(0).String(), config.RateMax.String()}
	}
	return nil
}

// IsOption reports whether name is an option of every run, and not of one
// transport or of the command.
func IsOption(name string) bool {
	return slices.ContainsFunc(configOptions, func(o option) bool { return o.name == name })
}

// keys returns all settings and options.
func keys() []string {
	var all []string
	for _, s := range settings {
		all = append(all, s.name)
	}
	return append(all, Names()...)
}

// typed returns a constructor of options that parse and format a value. what
// describes a valid value.
func typed[T any](kind, what string, parse func(string) (T, error), format func(T) string) func(name, help string, field func(*config.Config) *T) option {
	return func(name, help string, field func(*config.Config) *T) option {
		return option{name, kind, help,
			func(c *config.Config, text string) (err error) {
				*field(c), err = parse(text)
				return isNot(what, text, err)
			},
			func(c *config.Config) string { return format(*field(c)) }}
	}
}

var (
	text = typed("string", "", func(text string) (string, error) { return text, nil },
		func(text string) string { return text })
	number = typed("int", "a whole number", strconv.Atoi, strconv.Itoa)
	seed   = typed("int", "a number from 0", func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) },
		func(n uint64) string { return strconv.FormatUint(n, 10) })
	fraction = typed("float", "a number", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) },
		func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })
	toggle   = typed(kindBool, "true or false", strconv.ParseBool, strconv.FormatBool)
	duration = typed("duration", "a duration such as 500ms or 1.5s", parseDuration, config.Duration.String)
)

func parseDuration(text string) (d config.Duration, err error) {
	err = d.UnmarshalText([]byte(text))
	return d, err
}

// setShower is a value that parses and formats itself.
type setShower interface {
	Set(text string) error
	String() string
}

func setter(name, kind, help string, field func(*config.Config) setShower) option {
	return option{name, kind, help,
		func(c *config.Config, text string) error { return field(c).Set(text) },
		func(c *config.Config) string { return field(c).String() }}
}

// orList joins names as in "a, b or c".
func orList(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// prefixFile marks a value-size that names the file of a histogram.
const prefixFile = "file:"

// readSizes reads sizes. It reads a histogram's file at once, so that results
// have its content.
func readSizes(c *config.Config, text string) error {
	path, found := strings.CutPrefix(text, prefixFile)
	if !found {
		return c.ValueSize.Set(text)
	}
	content, err := files.ReadArgument(path, config.MaxHistogramFile)
	if err == nil {
		c.ValueSize, err = config.ReadHistogram(bytes.NewReader(content))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

const kindBool = "bool"

func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	return b, isNot("true or false", text, err)
}

// isNot returns an error for users in place of a parser's, or nil.
func isNot(what, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q is not %s", text, what)
}
