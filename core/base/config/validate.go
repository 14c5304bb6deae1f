package config

import "fmt"

// Error is an invalid option, by itself or in combination with others.
type Error struct {
	Option  string // the flag's name, without dashes
	Problem string // what is wrong, and the remedy
}

func (e *Error) Error() string { return fmt.Sprintf("--%s: %s", e.Option, e.Problem) }

// Validate returns an [*Error] for the first invalid option: of each by itself, then by the rules
// across options.
func (c *Config) Validate() error {
	if err := checkClasses(c); err != nil { // their totals are options, too
		return err
	}
	if err := c.checkFields(func(*Field) bool { return true }); err != nil {
		return err
	}
	for _, check := range []func(*Config) *Error{
		checkConflicts,
		checkRanks, checkKeys, checkOperations, checkService, checkStorage, checkPlacement,
		checkTokens, checkLoad, checkTraffic, checkReplay, checkHandoff, checkTrack,
	} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

// checkFields checks the fields that are wanted, each by itself.
func (c *Config) checkFields(wanted func(*Field) bool) error {
	for i := range fields {
		if f := &fields[i]; wanted(f) {
			if problem := f.check(c); problem != "" {
				return &Error{f.Name, problem}
			}
		}
	}
	return nil
}

// CheckSizes returns an [*Error] for a size that no run can have. It is for the configuration of a
// result of any version, which need not pass [Config.Validate].
func (c *Config) CheckSizes() error {
	if err := c.checkFields(func(f *Field) bool { return f.isSize }); err != nil {
		return err
	}
	if err := checkRanks(c); err != nil {
		return err
	}
	return nil
}

func checkRanks(c *Config) *Error {
	if need := c.minRanks(); c.Ranks < need {
		return &Error{"ranks", fmt.Sprintf("%d is out of range (%d to %d)", c.Ranks, need,
			MaxRanks)}
	}
	return nil
}

func checkKeys(c *Config) *Error {
	switch {
	case c.Launches > c.Repeats:
		return &Error{"launches", fmt.Sprintf("%d is out of range (0 to %d)", c.Launches,
			c.Repeats)}
	case c.Theta == 0 || c.Theta == 1:
		return &Error{"theta", fmt.Sprintf("%g is out of range (0 to 1, exclusive)", c.Theta)}
	case c.Distribution == DistributionHotspot && (c.HotKeys == 0 || c.HotKeys == 1):
		return &Error{"hot-keys",
			fmt.Sprintf("%g of the keys leaves no %s keys; use a share between 0 and 1", c.HotKeys,
				map[float64]string{0: "hot", 1: "cold"}[c.HotKeys])}
	case c.TotalKeys() > MaxKeys:
		return &Error{"keys", fmt.Sprintf("%d on each of %d ranks exceed %d in all; use fewer",
			c.Keys, c.ServingRanks(), MaxKeys)}
	case c.Daemons > c.Keys:
		return &Error{"daemons",
			fmt.Sprintf("%d daemons for %d keys leave a daemon without keys; use --keys %d or more",
				c.Daemons, c.Keys, c.Daemons)}
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
	if c.BytesPerToken == 0 || c.Replay != "" || c.Handoff != "" { // they have their own blocks
		return nil
	}
	if c.TokensPerBlock == 0 {
		return &Error{"bytes-per-token", "needs --tokens-per-block; set it too"}
	}
	if want := FixedSize(c.BlockSize()); want.Max() > MaxValueSize {
		return &Error{"bytes-per-token",
			fmt.Sprintf("blocks of %s exceed %s; use fewer tokens or bytes", want,
				Size(MaxValueSize))}
	} else if !c.ValueSize.Fixed() || c.ValueSize.Max() != want.Max() {
		return &Error{"value-size", fmt.Sprintf("differs from the %s of tokens-per-block times "+
			"bytes-per-token; leave it out, or use --bytes-per-token 0", want)}
	}
	return nil
}

// BlockSize returns the bytes of a block of tokens, or of a message of a hand-off in bulk. It is 0
// if Config.BytesPerToken is 0.
func (c *Config) BlockSize() Size {
	if c.Bulk() {
		total := c.handoffBytes()
		return Size(ceil(total, ceil(total, handoffChunk)))
	}
	return Size(c.TokensPerBlock) * c.BytesPerToken
}

// checkLoad checks that there are ranks to call.
func checkLoad(c *Config) *Error {
	if c.RemoteShare != ByHash && c.RemoteShare > 0 && c.Ranks == 1 {
		return &Error{"remote-share", "has no effect with one rank, where every request is " +
			"local; use --ranks 2 or more, or leave it out"}
	}
	return nil
}
