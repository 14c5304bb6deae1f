package config

import "time"

// Config is the resolved configuration of one run, as it stands in a result.
// The JSON names are the flags' with underscores for hyphens.
type Config struct {
	Transport string `json:"transport"`
	// Options are the transport's own, complete once it has been asked.
	Options map[string]string `json:"options"`

	Profile  string `json:"profile"`
	Topology string `json:"topology"`
	Ranks    int    `json:"ranks"`   // processes
	Daemons  int    `json:"daemons"` // polling threads of a serving rank
	Clients  int    `json:"clients"` // client threads of a calling rank
	InFlight int    `json:"in_flight"`

	Keys      int   `json:"keys"` // distinct keys of each serving rank
	ValueSize Sizes `json:"value_size"`
	// TokensPerBlock is how many tokens a value stands for; 0 is none.
	TokensPerBlock int `json:"tokens_per_block,omitempty"`
	// BytesPerToken, where it is not 0, makes values TokensPerBlock times as
	// long; ValueSize is then that product.
	BytesPerToken Size `json:"bytes_per_token,omitempty"`
	// ReadRatio is the share of reads, the rest being writes, unless there is
	// a Mix or a Pattern, of which there is one at most.
	ReadRatio float64 `json:"read_ratio"`
	Mix       Mix     `json:"mix,omitempty"`
	Pattern   Pattern `json:"pattern,omitempty"`

	Distribution string  `json:"distribution"`
	Theta        float64 `json:"theta"` // skew of zipfian and latest
	// HotKeys is the share of the keys that hotspot makes hot, and HotShare
	// the share of the requests that go to them.
	HotKeys  float64 `json:"hot_keys,omitempty"`
	HotShare float64 `json:"hot_share,omitempty"`
	Seed     uint64  `json:"seed"`

	// RemoteShare is the share of requests that go to another rank than the
	// client's own; ByHash leaves it to the keys' owners.
	RemoteShare Share `json:"remote_share,omitempty"`
	// Rate is the open-loop load of all clients together, and Arrival how its
	// gaps are distributed.
	Rate    Rate   `json:"rate,omitempty"`
	Arrival string `json:"arrival,omitempty"`

	Flush string `json:"flush"`
	Idle  string `json:"idle"`
	Pin   bool   `json:"pin"`

	Warmup   Duration `json:"warmup"`
	Duration Duration `json:"duration"`
	Repeats  int      `json:"repeats"`

	// VerifyEvery is how many values are read for each whose checksum is
	// verified: 1 verifies all. Token, key and version always are.
	VerifyEvery int `json:"verify_every"`
	// SampleEvery is how many ops pass for each whose latency is taken; 0
	// lets warm-up choose, so that stamping costs less than 2% of an op.
	SampleEvery int `json:"sample_every"`

	// Burn is how long a client spins before each call: a slow-down of a known
	// size, against which comparisons are tested.
	Burn Duration `json:"burn,omitempty"`
}

// The values of the enumerated options.
const (
	DistributionUniform    = "uniform"
	DistributionZipfian    = "zipfian"
	DistributionHotspot    = "hotspot"
	DistributionLatest     = "latest"
	DistributionSequential = "sequential"

	// FlushLoop rings the doorbell once a loop, FlushImmediate after each
	// message.
	FlushLoop      = "loop"
	FlushImmediate = "immediate"

	IdleAuto  = "auto"
	IdleSpin  = "spin"
	IdleYield = "yield"
	IdlePark  = "park"
)

// Bounds that keep a typing error from taking the machine down.
const (
	MaxRanks     = 1024
	MaxThreads   = 1024 // daemons or clients of one rank
	MaxInFlight  = 1 << 16
	MaxKeys      = 1 << 30 // of all serving ranks together
	MaxValueSize = 1 << 30
	MaxTokens    = 1 << 20 // of a block
	MaxRepeats   = 10_000
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
		Warmup: Duration(2 * time.Second), Duration: Duration(time.Second), Repeats: 10,
		VerifyEvery: 1,
	}
}

// Distributions has the names of all distributions of keys.
func Distributions() []string {
	return []string{DistributionUniform, DistributionZipfian, DistributionHotspot, DistributionLatest, DistributionSequential}
}

// MessageHeader is the size in bytes of a key-value message without its value.
const MessageHeader = 16

// LargestMessage returns the size in bytes of the largest message of the load.
func (c *Config) LargestMessage() int { return MessageHeader + c.ValueSize.Max() }
