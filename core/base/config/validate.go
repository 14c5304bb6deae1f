package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"transportbench/core/transport"
)

// Error is an invalid option, by itself or in combination with others.
type Error struct {
	Option  string // the flag's name, without dashes
	Problem string // what is wrong, and the remedy
}

func (e *Error) Error() string { return fmt.Sprintf("--%s: %s", e.Option, e.Problem) }

// Validate returns an [*Error] for the first invalid option.
func (c *Config) Validate() error {
	for _, check := range []func(*Config) *Error{checkEnums, checkClasses, checkNumbers, checkFractions, checkTimes, checkKeys, checkOperations, checkService, checkStorage, checkNetwork, checkPlacement, checkTokens, checkLoad, checkTraffic, checkTrack} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

func checkEnums(c *Config) *Error {
	enums := []struct {
		option, value string
		allowed       []string
	}{
		{"topology", c.Topology, topologies()},
		{"distribution", c.Distribution, Distributions()},
		{"arrival", c.Arrival, []string{ArrivalPoisson, ArrivalConstant}},
		{"flush", c.Flush, []string{FlushLoop, FlushImmediate}},
		{"idle", c.Idle, []string{IdleAuto, IdleSpin, IdleYield, IdlePark}},
	}
	for _, e := range enums {
		if !slices.Contains(e.allowed, e.value) {
			return &Error{e.option, fmt.Sprintf("%q is not one of %s%s", e.value,
				strings.Join(e.allowed, ", "), transport.SuggestionFor(e.value, e.allowed))}
		}
	}
	return nil
}

// bound is a number of an option and its range.
type bound struct {
	option         string
	value, low, up int
}

// sizes are the numbers that determine how large a run is.
func sizes(c *Config) []bound {
	return []bound{
		{"ranks", c.Ranks, c.leastRanks(), MaxRanks},
		{"daemons", c.Daemons, 1, MaxThreads},
		{"clients", c.Clients, 1, MaxThreads},
		{"in-flight", c.InFlight, 1, MaxInFlight},
		{"keys", c.Keys, 1, MaxKeys},
		{"tokens-per-block", c.TokensPerBlock, 0, MaxTokens},
		{"bytes-per-token", int(c.BytesPerToken), 0, MaxValueSize},
		{"value-size", c.ValueSize.Min(), 0, MaxValueSize},
		{"value-size", c.ValueSize.Max(), 0, MaxValueSize},
	}
}

// CheckSizes returns an [*Error] for a size that no run can have. It is for the configuration of a
// result of any version, which need not pass [Config.Validate].
func (c *Config) CheckSizes() error {
	if err := within(sizes(c)); err != nil {
		return err
	}
	return nil
}

func checkNumbers(c *Config) *Error {
	return within(append(sizes(c),
		bound{"repeats", c.Repeats, 1, MaxRepeats},
		bound{"launches", c.Launches, 0, c.Repeats},
		bound{"verify-every", c.VerifyEvery, 1, 1 << 30},
		bound{"sample-every", c.SampleEvery, 0, 1 << 30},
	))
}

// within returns an error for the first number out of its range.
func within(bounds []bound) *Error {
	for _, b := range bounds {
		if b.value < b.low || b.value > b.up {
			return &Error{b.option, fmt.Sprintf("%d is out of range (%d to %d)", b.value, b.low, b.up)}
		}
	}
	return nil
}

// checkFractions negates its conditions, so that NaN fails too.
func checkFractions(c *Config) *Error {
	for _, share := range []struct {
		option string
		value  float64
	}{{"read-ratio", c.ReadRatio}, {"hot-keys", c.HotKeys}, {"hot-share", c.HotShare}} {
		if !(share.value >= 0 && share.value <= 1) {
			return &Error{share.option, fmt.Sprintf("%g is out of range (0 to 1)", share.value)}
		}
	}
	switch {
	case !(c.Theta > 0 && c.Theta < 1):
		return &Error{"theta", fmt.Sprintf("%g is out of range (0 to 1, exclusive)", c.Theta)}
	case c.Distribution == DistributionHotspot && (c.HotKeys == 0 || c.HotKeys == 1):
		return &Error{"hot-keys", fmt.Sprintf("%g of the keys leaves no %s keys; use a share between 0 and 1", c.HotKeys, map[float64]string{0: "hot", 1: "cold"}[c.HotKeys])}
	}
	return nil
}

func checkTimes(c *Config) *Error {
	switch {
	case c.Duration < Duration(time.Millisecond) || c.Duration > MaxDuration:
		return &Error{"duration", fmt.Sprintf("%v is out of range (1ms to %v)", c.Duration, MaxDuration)}
	case c.Burn < 0 || c.Burn > Duration(time.Second):
		return &Error{"burn", fmt.Sprintf("%v is out of range (0s to 1s)", c.Burn)}
	case c.Warmup < 0 || c.Warmup > MaxDuration:
		return &Error{"warmup", fmt.Sprintf("%v is out of range (0s to %v)", c.Warmup, MaxDuration)}
	}
	return nil
}

func checkKeys(c *Config) *Error {
	switch {
	case c.TotalKeys() > MaxKeys:
		return &Error{"keys", fmt.Sprintf("%d on each of %d ranks exceed %d in all; use fewer", c.Keys, c.ServingRanks(), MaxKeys)}
	case c.Daemons > c.Keys:
		return &Error{"daemons", fmt.Sprintf("%d daemons for %d keys leave a daemon without keys; use --keys %d or more", c.Daemons, c.Keys, c.Daemons)}
	}
	return nil
}

func checkOperations(c *Config) *Error {
	if err := c.Mix.validate(); err != nil {
		return &Error{"mix", err.Error()}
	}
	if err := c.Pattern.validate(); err != nil {
		return &Error{"pattern", err.Error()}
	}
	if len(c.Mix) > 0 && len(c.Pattern) > 0 {
		return &Error{"pattern", "cannot be combined with a mix; use --mix none or --pattern none"}
	}
	return nil
}

func checkTokens(c *Config) *Error {
	if c.BytesPerToken == 0 {
		return nil
	}
	if c.TokensPerBlock == 0 {
		return &Error{"bytes-per-token", "needs --tokens-per-block; set it too"}
	}
	if want := FixedSize(c.BlockSize()); want.Max() > MaxValueSize {
		return &Error{"bytes-per-token", fmt.Sprintf("blocks of %s exceed %s; use fewer tokens or bytes", want, Size(MaxValueSize))}
	} else if !c.ValueSize.Fixed() || c.ValueSize.Max() != want.Max() {
		return &Error{"value-size", fmt.Sprintf("differs from the %s of tokens-per-block times bytes-per-token; leave it out, or use --bytes-per-token 0", want)}
	}
	return nil
}

// BlockSize returns the bytes of a block of tokens, or 0 if Config.BytesPerToken is 0.
func (c *Config) BlockSize() Size { return Size(c.TokensPerBlock) * c.BytesPerToken }

// checkLoad checks the options of meshes and open loops.
func checkLoad(c *Config) *Error {
	switch {
	case c.RemoteShare != ByHash && !(c.RemoteShare >= 0 && c.RemoteShare <= 1):
		return &Error{"remote-share", fmt.Sprintf("%g is out of range (0 to 1)", float64(c.RemoteShare))}
	case c.RemoteShare != ByHash && !c.Mesh():
		return &Error{"remote-share", "has no effect in client-server, where every request goes to a rank that serves; use --topology mesh-direct or mesh-proxied, or leave it out"}
	case c.RemoteShare != ByHash && c.RemoteShare > 0 && c.Ranks == 1:
		return &Error{"remote-share", "has no effect with one rank, where every request is local; use --ranks 2 or more, or leave it out"}
	case c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate):
		return &Error{"rate", fmt.Sprintf("%g op/s is out of range (%g to %g)", float64(c.Rate), minRate, maxRate)}
	case c.Proxied() && c.Idle == IdlePark:
		return &Error{"idle", "park does not work with mesh-proxied, where a daemon waits for clients and for other ranks at the same time; use auto, spin or yield"}
	}
	return nil
}
