package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/delay"
	"transportbench/core/base/model"
	"transportbench/core/base/netem"
	"transportbench/core/transport"
)

// The options that rules across fields name.
const (
	optionProfile       = "profile"
	optionTopology      = "topology"
	optionRanks         = "ranks"
	optionClients       = "clients"
	optionInFlight      = "in-flight"
	optionService       = "service"
	optionValueSize     = "value-size"
	optionBytesPerToken = "bytes-per-token"
	optionReadRatio     = "read-ratio"
	optionMix           = "mix"
	optionPattern       = "pattern"
	optionTraffic       = "traffic"
	optionClass         = "class"
	optionRate          = "rate"
	optionWarmup        = "warmup"
	optionTrack         = "track"
	optionVerifyEvery   = "verify-every"
	optionReplay        = "replay"
	optionModel         = "model"
	optionHandoff       = "handoff"
	optionTokens        = "tokens-per-block"
)

// fields has every option of a run, in the order of docs/options.md.
var fields = complete([]Field{
	option(optionProfile, "sets several options at once: "+orList(profileNames()),
		examples(profileNames()...)),
	option(optionTopology, "how ranks call each other: client-server, mesh-direct or mesh-proxied",
		allowed(topologies()...)),
	option(optionRanks, "number of processes", bounds(1, MaxRanks), size),
	option("servers", "client-server: ranks that serve, the first ones; the others call",
		bounds(0, MaxRanks-1),
		conflicts(optionTopology, "where every rank serves", TopologyMeshDirect,
			TopologyMeshProxied),
		conflicts(optionTraffic, "which chooses the ranks that serve")),
	option("daemons", "polling threads per serving rank", bounds(1, MaxThreads), size),
	option(optionClients, "client threads per calling rank", bounds(1, MaxThreads), size),
	option(optionInFlight, "calls in flight per client", bounds(1, MaxInFlight), size),
	option(optionService, "what a daemon does: store (reads and writes of a key-value store), "+
		"echo (returns the message) or sink (drops writes)", allowed(services()...),
		sets(optionReadRatio, optionMix, optionPattern)),
	option("keys", "distinct keys per serving rank", bounds(1, MaxKeys), size),
	option(optionTokens, "tokens per value; 0 is none, and moves a hand-off in bulk",
		bounds(0, MaxTokens), size),
	option(optionBytesPerToken, "makes a value tokens-per-block times as large; 0 uses value-size",
		replaces(optionValueSize), bounds(0, MaxValueSize), size),
	option(optionValueSize, "bytes of a value: 32, 4KiB, uniform:64-4KiB, or file:PATH with a "+
		"size and a weight per line; also --payload",
		form("sizes"), aliases(nil, "payload"), replaces(optionBytesPerToken),
		bounds(0, MaxValueSize), size),
	option(optionReadRatio, "share of reads, 0 to 1; the rest are writes",
		replaces(optionMix, optionPattern), bounds(0, 1)),
	option(optionMix,
		"share of each operation, replaces read-ratio: read:0.95,insert:0.05; operations are "+
			orList(OpNames()),
		form("op:share,..."), replaces(optionReadRatio, optionPattern)),
	option(optionPattern, "fixed cycle of operations, replaces read-ratio: "+
		"lookup:7,read:6,write:3; one cycle is an iteration",
		form("op:count,..."), replaces(optionReadRatio, optionMix)),
	option("distribution", "distribution of keys: "+orList(Distributions()),
		allowed(Distributions()...)),
	option("theta", "skew of zipfian and latest, between 0 and 1", bounds(0, 1)),
	option("hot-keys", "hotspot: share of keys that are hot", bounds(0, 1)),
	option("hot-share", "hotspot: share of requests to hot keys", bounds(0, 1)),
	option("seed", "seed of the workload; the same seed gives the same operations"),
	option("read-delay", "time that the storage takes to read a value: "+orList(delay.Forms())+
		" (a part without and one in a lane); lognormal has median and p99", form("delay"),
		examples(delay.Forms()...),
		conflicts(optionService, "which has no storage", string(ServiceEcho), string(ServiceSink))),
	option("write-delay", "time that the storage takes to write a value, in the same forms",
		form("delay"), examples(delay.Forms()...),
		conflicts(optionService, "which has no storage", string(ServiceEcho), string(ServiceSink))),
	option("lookup-delay", "time that a lookup takes, in the same forms; it needs no lane",
		form("delay"), examples(delay.Forms()...),
		conflicts(optionService, "which has no storage", string(ServiceEcho), string(ServiceSink))),
	option("storage-lanes", "values that the storage of a daemon serves at a time; 0 is no limit",
		bounds(0, MaxStorageLanes)),
	option("write-lanes", "lanes of the storage for writes alone; storage-lanes are then for reads",
		bounds(0, MaxStorageLanes)),
	option("network",
		"network between the ranks, which are then in network namespaces (needs root): "+
			orList(netem.Forms()),
		form("impairments,..."), examples("none", "loss=0%", "loss=1%", "delay=50us")),
	option("remote-share",
		"mesh: share of requests to other ranks, 0 to 1; hash leaves it to the keys",
		form("share"),
		conflicts(optionTopology, "where every request goes to a rank that serves",
			TopologyClientServer),
		conflicts(optionTraffic, "which chooses the rank of each call")),
	option(optionTraffic, "which rank each call goes to, instead of the keys: "+
		orList(TrafficNames())+" (formerly --pattern)",
		form("pattern"), examples(TrafficNames()...), aliases(IsTraffic, optionPattern),
		sets(optionRanks, optionTopology)),
	option(optionClass, "class of traffic, repeatable: some clients of each rank with a load of "+
		"their own, as in rpc:64B,in-flight=1,slo=50us or bulk:1MiB,rate=500,clients=2",
		form("name:size,..."), separator(""),
		sets(optionClients, optionInFlight, optionService, optionValueSize, optionBytesPerToken,
			optionPattern, optionRate)),
	option(optionRate, "open-loop load of all clients together: 5000, 200k, 1.5M, or max to find "+
		"the capacity; closed keeps calls in flight instead",
		form("op/s"), examples(closedLoop, maximum)),
	option("arrival", "gaps of an open-loop load: poisson or constant",
		allowed(ArrivalPoisson, ArrivalConstant)),
	option(optionReplay, "replays the requests of a trace: a file of CSV or JSON lines, also "+
		"compressed; - is standard input", form("file"), separator(""), sets(append(traceOptions(),
		optionInFlight, "keys")...)),
	option("replay-format", "format of the trace; replay check --help lists the formats. It is "+
		"found by the first line", form("name")),
	option("from", "where the part to replay begins, since the first request of the trace",
		bounds(0, int64(MaxDuration))),
	option("for", "length of the part to replay; 0s is up to the end of the trace",
		bounds(0, int64(MaxDuration))),
	option("speed", "factor by which the times of a trace are shortened, or max to find the "+
		"capacity for its requests", form("factor"), examples("1", "2", "0.5", maximum)),
	option("closed", "ignores the times of a trace, and keeps calls in flight"),
	option(optionHandoff,
		"hands over the caches of requests of so many tokens, layer by layer, to "+
			"the daemon (push) or from it (pull): "+orList(handoffForms()),
		form("direction:tokens"),
		examples(handoffPush+":512", handoffPull+":512"), sets(optionReadRatio, optionMix,
			optionPattern, optionInFlight, "keys", "distribution"),
		conflicts(optionService, "which has no pages", string(ServiceEcho), string(ServiceSink)),
		conflicts(optionRate, "which ends no hand-off before the next"),
		conflicts(optionReplay, "which has its own requests")),
	option("burst", "hand-off: requests that are handed over at once", bounds(0, maxBurst)),
	option("tensor-parallel", "hand-off: accelerators that share a cache, of which one is measured",
		bounds(0, maxShards)),
	option(optionModel, "the model of a trace or a hand-off, which sets bytes-per-token: "+
		orList(model.Names())+", or the path of its config.json", form("name"),
		examples(model.Names()...), sets(optionBytesPerToken)),
	option("flush",
		"when the doorbell rings: loop (once per iteration), or immediate (after each message)",
		allowed(FlushLoop, FlushImmediate)),
	option("interleave", "mesh-proxied: none (a daemon polls ranks and clients, then sends) or "+
		"send-poll (it sends after each of the two)", form("order"), allowed(Interleaves()...),
		conflicts(optionTopology, "where a daemon sends after each poll",
			TopologyClientServer, TopologyMeshDirect),
		conflicts("flush", "which sends each message at once", FlushImmediate)),
	option("delegate", "a client calls one daemon of a rank, which passes requests on to the "+
		"daemon that owns the key",
		conflicts(optionService, "which keeps no keys", string(ServiceEcho), string(ServiceSink))),
	option("full-scan", "mesh-proxied: a daemon polls the links of all its clients in each "+
		"iteration, also of idle ones, which otherwise notify it",
		conflicts(optionTopology, "where clients have no links to a daemon",
			TopologyClientServer, TopologyMeshDirect)),
	option("idle", "what a thread with nothing to do does: auto, spin, yield or park",
		allowed(IdleAuto, IdleSpin, IdleYield, IdlePark),
		conflictOf([]string{IdlePark}, optionTopology,
			"where a daemon waits for clients and for other ranks at the same time",
			TopologyMeshProxied),
		conflictOf([]string{IdlePark}, "delegate",
			"where a daemon waits for peers and for the other daemons at the same time")),
	option("pin", "pin each polling thread to a core"),
	option("cpus", "processors of the polling threads, such as daemons=2,clients=3-18; those of "+
		"a role are taken in turn, in the order of the ranks; auto spreads threads over cores",
		form("role=list,..."),
		conflicts("pin", "which lets threads move", "false")),
	option("numa", "use the processors of one NUMA node; any uses all", form("node"),
		conflicts("pin", "which lets threads move", "false"),
		conflicts("cpus", "which chooses each processor")),
	option(optionWarmup, "longest load before the first repeat; ends when throughput is steady",
		bounds(0, int64(MaxDuration))),
	option("duration", "time of one repeat", bounds(int64(time.Millisecond), int64(MaxDuration))),
	option("repeats", "windows to measure; fewer than 6 give no 95% interval",
		bounds(1, MaxRepeats)),
	option("launches", "starts of the ranks, each for a part of the repeats; 0 starts them for "+
		"each repeat, 1 only once", bounds(0, MaxRepeats)),
	option(optionTrack, "integrity checks: shipped (each transport as by default) or matched "+
		"(all payloads verified by the runtime, none by a transport)", allowed(tracks()...),
		sets(optionVerifyEvery)),
	option(optionVerifyEvery, "verify one value in this many in full; 1 verifies all",
		bounds(1, 1<<30)),
	option("sample-every", "time one operation in this many; 0 keeps the cost under 2%",
		bounds(0, 1<<30)),
	option("burn",
		"time that a client burns before each call, to test comparisons with a known slowdown",
		bounds(0, int64(time.Second))),
})

// property is something about a field that most others do not have.
type property func(*Field)

func option(name, help string, properties ...property) Field {
	f := Field{Option: transport.Option{Name: name, Help: help}, Separator: ","}
	for _, p := range properties {
		p(&f)
	}
	return f
}

func allowed(values ...string) property {
	return func(f *Field) { f.Allowed, f.Examples = values, values }
}
func examples(values ...string) property { return func(f *Field) { f.Examples = values } }
func replaces(names ...string) property  { return func(f *Field) { f.Replaces = names } }
func sets(names ...string) property      { return func(f *Field) { f.Sets = names } }
func bounds(low, high int64) property    { return func(f *Field) { f.Min, f.Max = low, high } }

// conflicts adds a conflict with values of another option, or with all but its default without any.
func conflicts(with, why string, values ...string) property {
	return conflictOf(nil, with, why, values...)
}

// conflictOf is conflicts for some values of the option itself.
func conflictOf(own []string, with, why string, values ...string) property {
	return func(f *Field) {
		f.Conflicts = append(f.Conflicts, Conflict{own, with, values, why})
	}
}

func size(f *Field)                  { f.isSize = true }
func separator(text string) property { return func(f *Field) { f.Separator = text } }

// form sets the placeholder that help shows after the name. If it ends in ",...", a value may have
// commas.
func form(text string) property {
	return func(f *Field) {
		if f.Form = text; strings.HasSuffix(text, ",...") {
			f.Separator = ";"
		}
	}
}

func aliases(only func(text string) bool, names ...string) property {
	return func(f *Field) { f.Aliases, f.IsAlias = names, only }
}

// complete adds to fields what their types and defaults in [Config] say.
func complete(list []Field) []Field {
	c := Default()
	byName := map[string]reflect.StructField{}
	for f := range reflect.TypeFor[Config]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		byName[strings.ReplaceAll(name, "_", "-")] = f
	}
	for i := range list {
		f := &list[i]
		of, has := byName[f.Name]
		if !has {
			panic("no field of Config has the JSON name of option " + f.Name)
		}
		f.index = of.Index
		f.Default = f.Show(&c)
		f.Type = typeOf(of.Type)
		if f.Form == "" {
			f.Form = string(f.Type)
			if len(f.Allowed) > 0 && of.Type != reflect.TypeFor[string]() {
				f.Form = "name"
			}
		}
	}
	return slices.Clip(list)
}

func typeOf(t reflect.Type) transport.OptionType {
	switch {
	case t == reflect.TypeFor[Duration]():
		return transport.TypeDuration
	case t == reflect.TypeFor[Size](), t == reflect.TypeFor[Sizes]():
		return transport.TypeSize
	case t == reflect.TypeFor[Rate](), t == reflect.TypeFor[Share](), t == reflect.TypeFor[Speed]():
		return transport.TypeString
	}
	switch t.Kind() {
	case reflect.Bool:
		return transport.TypeBool
	case reflect.Int, reflect.Uint64:
		return transport.TypeInt
	case reflect.Float64:
		return transport.TypeFloat
	default:
		return transport.TypeString
	}
}
