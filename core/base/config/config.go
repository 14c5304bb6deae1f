package config

import (
	"cmp"
	"slices"
	"time"

	"transportbench/core/base/delay"
	"transportbench/core/base/model"
	"transportbench/core/base/netem"
)

// Config is the resolved configuration of one run, as recorded in its result. The JSON names are
// the flags' names with underscores instead of hyphens.
type Config struct {
	Transport string `json:"transport"`
	// Options are the options of the transport, with its defaults once they are resolved.
	Options map[string]string `json:"options"`

	Profile  string `json:"profile"`
	Topology string `json:"topology"`
	Ranks    int    `json:"ranks"` // processes
	// Servers is how many of them serve in client-server; absent for one.
	Servers  Count `json:"servers,omitempty"`
	Daemons  int   `json:"daemons"` // polling threads of a serving rank
	Clients  int   `json:"clients"` // client threads of a calling rank
	InFlight int   `json:"in_flight"`

	// Service is what daemons do with a request.
	Service Service `json:"service,omitempty"`

	Keys      int   `json:"keys"` // distinct keys of each serving rank
	ValueSize Sizes `json:"value_size"`
	// TokensPerBlock is the number of tokens that a value represents; 0 is none.
	TokensPerBlock int `json:"tokens_per_block,omitempty"`
	// BytesPerToken, if not 0, determines ValueSize: it is TokensPerBlock times BytesPerToken.
	BytesPerToken Size `json:"bytes_per_token,omitempty"`
	// ReadRatio is the share of reads; the other operations are writes. A Mix or a Pattern
	// replaces it; at most one of them is set.
	ReadRatio float64 `json:"read_ratio"`
	Mix       Mix     `json:"mix,omitempty"`
	Pattern   Pattern `json:"pattern,omitempty"`

	Distribution string  `json:"distribution"`
	Theta        float64 `json:"theta"` // skew of zipfian and latest
	// HotKeys is the share of the keys that are hot with hotspot, and HotShare the share of the
	// requests for them.
	HotKeys  float64 `json:"hot_keys,omitempty"`
	HotShare float64 `json:"hot_share,omitempty"`
	Seed     uint64  `json:"seed"`

	// ReadDelay and WriteDelay are what the storage behind the store takes for a value. A daemon's
	// storage serves StorageLanes values at a time, or any number with 0. With WriteLanes, writes
	// have lanes of their own. LookupDelay is what a lookup takes, which needs no lane.
	ReadDelay    delay.Delay `json:"read_delay,omitempty"`
	WriteDelay   delay.Delay `json:"write_delay,omitempty"`
	LookupDelay  delay.Delay `json:"lookup_delay,omitempty"`
	StorageLanes int         `json:"storage_lanes,omitempty"`
	WriteLanes   int         `json:"write_lanes,omitempty"`

	// Network impairs the packets between ranks, which are then in network namespaces.
	Network netem.Network `json:"network,omitempty"`

	// RemoteShare is the share of requests to other ranks than the client's own. With ByHash it
	// follows from the keys' owners.
	RemoteShare Share `json:"remote_share,omitempty"`
	// Traffic chooses the rank of each call instead of the keys.
	Traffic Traffic `json:"traffic,omitempty"`
	// Classes give some clients another load than others. Clients is then their sum, and InFlight
	// and ValueSize are the largest.
	Classes Classes `json:"class,omitempty"`
	// Replay is the path of the trace whose requests the clients send. Once the trace is prepared,
	// it is the digest of the file. From and For choose a part, by times since its first
	// request.
	Replay       Name     `json:"replay,omitempty"`
	ReplayFormat Name     `json:"replay_format,omitempty"`
	From         Duration `json:"from,omitempty"`
	For          Duration `json:"for,omitempty"`
	// Speed is the factor by which the times of a trace are shortened.
	Speed Speed `json:"speed,omitempty"`
	// Closed ignores the times of a trace and keeps calls in flight.
	Closed bool `json:"closed,omitempty"`
	// Handoff has each client hand over the caches of requests, Burst of them at once. The cache of
	// a request is that of Model on one of TensorParallel accelerators. It moves in pages of
	// TokensPerBlock tokens of a layer, or with 0 in bulk.
	Handoff        Handoff `json:"handoff,omitempty"`
	Burst          Count   `json:"burst,omitempty"`
	TensorParallel Count   `json:"tensor_parallel,omitempty"`
	// Model determines BytesPerToken.
	Model model.Name `json:"model,omitempty"`
	// Part is nil unless a trace is prepared.
	Part *ReplayPart `json:"part,omitempty"`
	// Rate is the open-loop load of all clients together, and Arrival the distribution of the gaps
	// between operations.
	Rate    Rate   `json:"rate,omitempty"`
	Arrival string `json:"arrival,omitempty"`

	Flush string `json:"flush"`
	// Interleave is the order of sending and polling; absent for one of each per iteration.
	Interleave Interleave `json:"interleave,omitempty"`
	// Delegate lets each client call one daemon of a rank, which passes requests on to the one that
	// owns the key.
	Delegate bool `json:"delegate,omitempty"`
	// FullScan has a daemon of mesh-proxied poll the links of all its clients in each iteration;
	// otherwise those that have been idle notify it.
	FullScan bool   `json:"full_scan,omitempty"`
	Idle     string `json:"idle"`
	Pin      bool   `json:"pin"`
	// CPUs and NUMA choose processors; absent if the runner does.
	CPUs CPUs     `json:"cpus,omitempty"`
	NUMA NUMANode `json:"numa,omitempty"`

	Warmup   Duration `json:"warmup"`
	Duration Duration `json:"duration"`
	Repeats  int      `json:"repeats"`
	// Launches is how many times the ranks are started; each launch measures an equal part of the
	// repeats. 0 starts them for each repeat.
	Launches int `json:"launches,omitempty"`

	// Track sets the integrity checks; it is absent for TrackShipped.
	Track Track `json:"track,omitempty"`
	// VerifyEvery is the sampling of verification: one of VerifyEvery values that are read is
	// verified in full, and one word of each cache line is read of the others. Token, key and
	// version are always verified.
	VerifyEvery int `json:"verify_every"`
	// SampleEvery is the sampling of latencies: one of SampleEvery ops is timed. With 0 the
	// warm-up chooses it so that timing costs less than 2% of an op.
	SampleEvery int `json:"sample_every"`

	// Burn is how long a client spins before each call: a known slow-down, against which
	// comparisons are tested.
	Burn Duration `json:"burn,omitempty"`
}

// The values of the enumerated options.
const (
	DistributionUniform    = "uniform"
	DistributionZipfian    = "zipfian"
	DistributionHotspot    = "hotspot"
	DistributionLatest     = "latest"
	DistributionSequential = "sequential"

	// FlushLoop flushes once per iteration of a loop, FlushImmediate after each message.
	FlushLoop      = "loop"
	FlushImmediate = "immediate"

	IdleAuto  = "auto"
	IdleSpin  = "spin"
	IdleYield = "yield"
	IdlePark  = "park"
)

// Bounds that keep a typing error from exhausting the machine.
const (
	MaxRanks     = 1024
	MaxThreads   = 1024 // daemons or clients of one rank
	MaxInFlight  = 1 << 16
	MaxKeys      = 1 << 30 // of all serving ranks together
	MaxValueSize = 1 << 30
	MaxTokens    = 1 << 20 // of a block
	MaxRepeats   = 10_000
	MaxDuration  = Duration(100 * time.Hour) // of a window or a warm-up
)

// Default returns the options before any profile, file, variable or flag.
func Default() Config {
	return Config{
		Transport: "shm", Options: map[string]string{},
		Profile: "kv", Topology: TopologyClientServer,
		Ranks: 2, Daemons: 1, Clients: 1, InFlight: 1,
		Keys: 1024, ValueSize: FixedSize(32), ReadRatio: 0.5,
		Distribution: DistributionUniform, Theta: 0.99, HotKeys: 0.2, HotShare: 0.8, Seed: 1,
		RemoteShare: ByHash, Arrival: ArrivalPoisson,
		Flush: FlushLoop, Idle: IdleAuto, Pin: true,
		Warmup: Duration(500 * time.Millisecond), Duration: Duration(time.Second), Repeats: 10,
		VerifyEvery: 1,
	}
}

// Distributions returns the names of all distributions of keys.
func Distributions() []string {
	return []string{DistributionUniform, DistributionZipfian, DistributionHotspot,
		DistributionLatest, DistributionSequential}
}

// RepeatsByLaunch returns how many repeats each launch measures. If they do not divide evenly, the
// first launches measure one more.
func (c *Config) RepeatsByLaunch() []int {
	n := cmp.Or(c.Launches, c.Repeats)
	list := make([]int, n)
	for i := range list {
		list[i] = c.Repeats*(i+1)/n - c.Repeats*i/n
	}
	slices.SortFunc(list, func(a, b int) int { return b - a })
	return list
}

// WithinLaunch reports whether all repeats, of which there are several, are of one launch. Their
// spread does not include what differs from one launch to the next.
func (c *Config) WithinLaunch() bool { return c.Launches == 1 && c.Repeats > 1 }

// MessageHeader is the size in bytes of a key-value message without its value.
const MessageHeader = 16

// LargestMessage returns the size in bytes of the load's largest message.
func (c *Config) LargestMessage() int { return MessageHeader + c.ValueSize.Max() }
