package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Handoff is the hand-off of a request's cache of keys and values from where its prompt is computed
// to where its answer is, written "push:512" for 512 tokens that the clients write, or "pull:512"
// for tokens that they read. The zero value is none.
type Handoff string

// The directions of a hand-off.
const (
	handoffPush = "push"
	handoffPull = "pull"
)

func handoffForms() []string { return []string{handoffPush + ":TOKENS", handoffPull + ":TOKENS"} }

// The bounds of hand-offs.
const (
	maxBurst  = 64
	maxShards = 1023
	// maxHandoff bounds the operations of a hand-off, each of which a client counts.
	maxHandoff = 1 << 24
)

// How a hand-off moves if the user does not say.
const (
	// handoffChunk is the size of a message of a bulk transfer, as in profile bulk: all transports
	// carry it, and larger ones leave the caches.
	handoffChunk = 512 << 10
	// handoffWindow is what is in flight, as in profile bulk, and handoffCalls the most messages.
	handoffWindow, handoffCalls = 12 * handoffChunk, 64
	// handoffPool is the memory in which pages lie, more than a processor's caches have.
	handoffPool = 256 << 20
)

func (h Handoff) String() string { return cmp.Or(string(h), none) }

// Set parses the format of String.
func (h *Handoff) Set(text string) error {
	if text == "" || text == none {
		*h = ""
		return nil
	}
	direction, tokens, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(tokens)
	if direction != handoffPush && direction != handoffPull || err != nil || n < 1 ||
		n > MaxTokens {
		return fmt.Errorf("%q is not push or pull with the tokens of a request, from 1 to %d; use "+
			"%s:512", shorten(text), MaxTokens, handoffPush)
	}
	*h = Handoff(direction + ":" + strconv.Itoa(n))
	return nil
}

// tokens returns the tokens of a request, or 0 without a hand-off.
func (h Handoff) tokens() int {
	_, text, _ := strings.Cut(string(h), ":")
	n, _ := strconv.Atoi(text)
	return n
}

// readRatio is 1 if the clients read and 0 if they write.
func (h Handoff) readRatio() float64 {
	if strings.HasPrefix(string(h), handoffPull) {
		return 1
	}
	return 0
}

// Bulk reports whether a hand-off moves in bulk, and not in pages.
func (c *Config) Bulk() bool { return c.Handoff != "" && c.TokensPerBlock == 0 }

// handoffBytes returns the bytes of all layers that one accelerator hands over.
func (c *Config) handoffBytes() int {
	layers := 0
	if m := c.Model.Shape(); m != nil {
		layers = m.Layers
	}
	return c.Burst.value() * c.Handoff.tokens() * layers * int(c.BytesPerToken)
}

// FirstPart returns the operations of the first part of an iteration: of the first layer of a
// hand-off, of which a bulk transfer shows nothing before its end, or else one.
func (c *Config) FirstPart() int {
	switch {
	case c.Bulk():
		return ceil(c.handoffBytes(), c.ValueSize.Max())
	case c.Handoff != "":
		return c.Burst.value() * ceil(c.Handoff.tokens(), c.TokensPerBlock)
	}
	return 1
}

// handoffOperations returns the operations of a hand-off.
func (c *Config) handoffOperations() int {
	if m := c.Model.Shape(); m != nil && !c.Bulk() {
		return m.Layers * c.FirstPart()
	}
	return c.FirstPart()
}

// TokensPerOperation returns the tokens of a value that is read or written, or 0 if it has none.
func (c *Config) TokensPerOperation() float64 {
	if c.Handoff != "" {
		return float64(c.Burst.value()*c.Handoff.tokens()) / float64(c.handoffOperations())
	}
	return float64(c.TokensPerBlock)
}

func ceil(a, b int) int { return (a + max(b, 1) - 1) / max(b, 1) }

// settleHandoff gives a hand-off its operations, and room for them. The size of a page is settled
// already.
func (r *resolution) settleHandoff() {
	c := &r.c
	if c.Handoff == "" {
		return
	}
	over := func(name string) bool { return r.over(optionHandoff, name) }
	if over(optionReadRatio) && over(optionMix) && over(optionPattern) {
		c.ReadRatio, c.Mix, c.Pattern = c.Handoff.readRatio(), nil, nil
	}
	if over("distribution") {
		if c.Distribution = DistributionUniform; c.Bulk() {
			c.Distribution = DistributionSequential
		}
	}
	size := max(c.LargestMessage(), 1)
	if over(optionInFlight) {
		c.InFlight = max(1, min(handoffWindow/size, handoffCalls, c.handoffOperations()))
	}
	if over("keys") {
		c.Keys = max(handoffPool/size, c.Daemons)
	}
}

// checkHandoff checks a hand-off against the other options.
func checkHandoff(c *Config) *Error {
	if c.Handoff == "" {
		for _, name := range []string{"burst", "tensor-parallel"} {
			if f := FieldByName(name); f.Show(c) != f.Default {
				return &Error{name, "needs a hand-off; set --handoff too"}
			}
		}
		return nil
	}
	m := c.Model.Shape()
	if m == nil {
		return &Error{optionHandoff, "needs the shape of a model; set --model too"}
	}
	switch shard, n := Size(m.LayerBytes(c.TensorParallel.value())), c.handoffOperations(); {
	case shard == 0:
		return &Error{"tensor-parallel", fmt.Sprintf("%s accelerators cannot share %d heads evenly",
			c.TensorParallel, m.KVHeads)}
	case c.BytesPerToken != shard:
		return &Error{optionBytesPerToken, fmt.Sprintf("a layer of the model has %s on each "+
			"accelerator; leave it out", shard)}
	case len(c.Mix)+len(c.Pattern) > 0 || c.ReadRatio != c.Handoff.readRatio():
		return &Error{optionHandoff, "has its own operations; leave out --read-ratio, --mix and " +
			"--pattern"}
	case !c.ValueSize.Fixed() || !c.Bulk() && c.ValueSize.Max() != int(c.BlockSize()):
		return &Error{optionValueSize,
			fmt.Sprintf("a page of %d tokens of a layer has %s; leave it out",
				c.TokensPerBlock, c.BlockSize())}
	case n < 1 || n > maxHandoff:
		return &Error{optionHandoff,
			fmt.Sprintf("%d messages are out of range (1 to %d); use fewer "+
				"tokens, a smaller burst or larger pages", n, maxHandoff)}
	}
	return nil
}
