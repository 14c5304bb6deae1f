package config

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultIsValid(t *testing.T) {
	c := Default()
	require.NoError(t, c.Validate())
}

func TestValidateNamesTheOption(t *testing.T) {
	for option, spoil := range map[string]func(*Config){
		"topology":     func(c *Config) { c.Topology = "ring" },
		"distribution": func(c *Config) { c.Distribution = "zipfain" },
		"flush":        func(c *Config) { c.Flush = "" },
		"idle":         func(c *Config) { c.Idle = "sleep" },
		"ranks":        func(c *Config) { c.Ranks = 1 },
		"daemons":      func(c *Config) { c.Daemons = 0 },
		"clients":      func(c *Config) { c.Clients = MaxThreads + 1 },
		"in-flight":    func(c *Config) { c.InFlight = -1 },
		"keys":         func(c *Config) { c.Keys = 0 },
		"value-size":   func(c *Config) { c.ValueSize = FixedSize(-1) },
		"mix":          func(c *Config) { c.Mix = Mix{{OpRead, 0.5}} },
		"pattern":      func(c *Config) { c.Pattern = Pattern{{"reed", 1}} },
		"service":      func(c *Config) { c.Service = "stor" },
		"hot-keys":     func(c *Config) { c.Distribution, c.HotKeys = DistributionHotspot, 0 },
		"hot-share":    func(c *Config) { c.HotShare = 1.5 },

		"tokens-per-block": func(c *Config) { c.TokensPerBlock = -1 },
		"bytes-per-token":  func(c *Config) { c.TokensPerBlock, c.BytesPerToken = 1<<10, 1<<21 },
		"read-ratio":       func(c *Config) { c.ReadRatio = math.NaN() },
		"theta":            func(c *Config) { c.Theta = 1 },
		"duration":         func(c *Config) { c.Duration = 0 },
		"warmup":           func(c *Config) { c.Warmup = -1 },
		"repeats":          func(c *Config) { c.Repeats = 0 },
		"verify-every":     func(c *Config) { c.VerifyEvery = 0 },
		"sample-every":     func(c *Config) { c.SampleEvery = -1 },
		"burn":             func(c *Config) { c.Burn = -1 },
	} {
		c := Default()
		spoil(&c)
		var wrong *Error
		require.ErrorAs(t, c.Validate(), &wrong, option)
		require.Equal(t, option, wrong.Option)
		require.NotContains(t, wrong.Error(), "\n")
	}
	c := Default()
	c.Topology, c.Ranks = TopologyMeshProxied, 1
	require.NoError(t, c.Validate())
	c.RemoteShare = 0
	require.NoError(t, c.Validate())
	c = Default()
	c.Distribution = "zipfain"
	require.ErrorContains(t, c.Validate(), `did you mean "zipfian"?`)
}

func TestJSONRoundTrip(t *testing.T) {
	c := Default()
	c.Duration, c.ValueSize, c.Options = Duration(1500*time.Millisecond), FixedSize(4096),
		map[string]string{"ring": "lamport"}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(text), `"duration":"1.5s"`)
	require.Contains(t, string(text), `"value_size":4096`)
	require.NotContains(t, string(text), "mix")
	var back Config
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, c, back)

	c.Mix, c.TokensPerBlock, c.BytesPerToken = Mix{{OpRead, 0.95}, {OpInsert, 0.05}}, 128, 4
	c.ValueSize, err = HistogramSizes([]SizeWeight{{4096, 1}, {64, 9}})
	require.NoError(t, err)
	text, err = json.Marshal(c)
	require.NoError(t, err)
	require.Contains(t, string(text), `"value_size":"histogram:64=9,4KiB=1"`)
	require.Contains(t, string(text), `"mix":"read:0.95,insert:0.05"`)
	back = Config{}
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, c, back)
}

func TestOptionsThatExcludeEachOther(t *testing.T) {
	for problem, spoil := range map[string]func(*Config){
		"--keys: 1073741825 is out of range": func(c *Config) {
			c.Keys = MaxKeys + 1
		},
		"--launches: 11 is out of range (0 to 10)": func(c *Config) { c.Launches = 11 },
		"--daemons: 3 daemons for 2 keys": func(c *Config) {
			c.Daemons, c.Keys = 3, 2
		},
		"--pattern: cannot be combined with a mix": func(c *Config) {
			c.Mix, c.Pattern = Mix{{OpRead, 1}}, Pattern{{OpRead, 1}}
		},
		"--hot-keys: 1 of the keys leaves no cold keys": func(c *Config) {
			c.Distribution, c.HotKeys = DistributionHotspot, 1
		},
		"--bytes-per-token: needs --tokens-per-block": func(c *Config) { c.BytesPerToken = 4 },
		"--value-size: differs from the 512 of": func(c *Config) {
			c.TokensPerBlock, c.BytesPerToken = 128, 4
		},
		"--ranks: 0 is out of range (1 to 1024)": func(c *Config) {
			c.Topology, c.Ranks = TopologyMeshDirect, 0
		},
		"--remote-share: has no effect with one rank": func(c *Config) {
			c.Topology, c.Ranks, c.RemoteShare = TopologyMeshDirect, 1, 1
		},
		`--pattern: "reed" is not one of`: func(c *Config) {
			c.Pattern = Pattern{{"reed", 1}}
		},
		`; did you mean "insert"?`: func(c *Config) {
			c.Mix = Mix{{"inzert", 1}}
		},
		"--mix: read is given twice": func(c *Config) {
			c.Mix = Mix{{OpRead, 0.5}, {OpRead, 0.5}}
		},
		"--mix: the shares add up to 0.9;": func(c *Config) {
			c.Mix = Mix{{OpRead, 0.5}, {OpWrite, 0.4}}
		},
		"--mix: the share of read is NaN": func(c *Config) {
			c.Mix = Mix{{OpRead, math.NaN()}}
		},
		"--pattern: the number of read is 0, out of range": func(c *Config) {
			c.Pattern = Pattern{{OpRead, 0}}
		},
		"--network: loss=x is not a percentage": func(c *Config) { c.Network = "loss=x" },
		"--network: 500 ranks are too many": func(c *Config) {
			c.Network, c.Ranks = "loss=1%", 500
		},
		"--pattern: more than 65536": func(c *Config) {
			c.Pattern = Pattern{{OpRead, MaxPattern}, {OpWrite, 1}}
		},
	} {
		c := Default()
		spoil(&c)
		require.ErrorContains(t, c.Validate(), problem)
	}
	c := Default()
	c.TokensPerBlock, c.BytesPerToken, c.ValueSize = 128, 4, FixedSize(512)
	require.NoError(t, c.Validate())
	c.BytesPerToken, c.ValueSize = 0, FixedSize(100)
	require.NoError(t, c.Validate(), "tokens of any size")
}

func TestRepeatsByLaunch(t *testing.T) {
	for launches, want := range map[int][]int{
		0: {1, 1, 1, 1, 1, 1, 1}, 1: {7}, 2: {4, 3}, 3: {3, 2, 2}, 7: {1, 1, 1, 1, 1, 1, 1},
	} {
		c := Default()
		c.Repeats, c.Launches = 7, launches
		require.Equal(t, want, c.RepeatsByLaunch())
		require.Equal(t, launches == 1, c.WithinLaunch())
	}
	one := Config{Repeats: 1, Launches: 1}
	require.False(t, one.WithinLaunch(), "one repeat has no spread")
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "32": 32, "4KiB": 4096, "1 MiB": 1 << 20,
		"2GiB": 2 << 30} {
		var s Size
		require.NoError(t, s.Set(text), text)
		require.Equal(t, want, s)
	}
	for _, text := range []string{"", "KiB", "-1", "1.5KiB", "1kb", "99999999999GiB"} {
		var s Size
		require.Error(t, s.Set(text), text)
	}
	require.Equal(t, "4KiB", Size(4096).String())
	require.Equal(t, "4097", Size(4097).String())
}
