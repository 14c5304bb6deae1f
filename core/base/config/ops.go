package config

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/fabric/suggest"
)

// The names of operations, in [Mix] and [Pattern].
const (
	OpRead   = "read"   // read an entry
	OpWrite  = "write"  // write an existing entry
	OpLookup = "lookup" // read an entry's header: whether it exists, and its version
	OpInsert = "insert" // write the next key of a client's own sequence
	OpRMW    = "rmw"    // read an entry, then write it
)

// OpNames returns the names of all operations.
func OpNames() []string { return []string{OpRead, OpWrite, OpLookup, OpInsert, OpRMW} }

// MaxPattern is the largest number of operations in a pattern.
const MaxPattern = 1 << 16

// none is an empty mix or pattern in flags and files.
const none = "none"

// Mix is the share of each operation, written "read:0.95,insert:0.05". With an empty mix,
// Config.ReadRatio applies.
type Mix []OpShare

// OpShare is the share of one operation, 0 to 1.
type OpShare struct {
	Op    string
	Share float64
}

func (m Mix) String() string {
	return joinOps(m, func(s OpShare) string {
		return s.Op + ":" + strconv.FormatFloat(s.Share, 'g',
			-1, 64)
	})
}

// Set parses the format of String.
func (m *Mix) Set(text string) error {
	parsed, err := parseOps(text, func(op, share string) (OpShare, error) {
		f, err := strconv.ParseFloat(share, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a share of %s such as 0.5", share, op)
		}
		return OpShare{op, f}, err
	})
	*m = parsed
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (m Mix) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *Mix) UnmarshalText(text []byte) error { return m.Set(string(text)) }

func (m Mix) validate() error {
	if len(m) == 0 {
		return nil
	}
	sum := 0.0
	names := make([]string, len(m))
	for i, s := range m {
		if !(s.Share >= 0 && s.Share <= 1) {
			return fmt.Errorf("the share of %[2]s is %[1]g, out of range (0 to 1)", s.Share, s.Op)
		}
		names[i] = s.Op
		sum += s.Share
	}
	if err := checkOps(names); err != nil {
		return err
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("the shares add up to %g; they must add up to 1", sum)
	}
	return nil
}

// Pattern is a fixed sequence of operations that repeats, written "lookup:7,read:6,write:3": the
// number of each operation, in that order. One pass is an iteration.
type Pattern []OpCount

// OpCount is a number of consecutive operations, at least 1.
type OpCount struct {
	Op    string
	Count int
}

// Len returns the number of operations in one iteration.
func (p Pattern) Len() int {
	n := 0
	for _, c := range p {
		n += c.Count
	}
	return n
}

func (p Pattern) String() string {
	return joinOps(p, func(c OpCount) string { return c.Op + ":" + strconv.Itoa(c.Count) })
}

// Set parses the format of String.
func (p *Pattern) Set(text string) error {
	parsed, err := parseOps(text, func(op, count string) (OpCount, error) {
		n, err := strconv.Atoi(count)
		if err != nil {
			err = fmt.Errorf("%q is not a number of %s such as 3", count, op)
		}
		return OpCount{op, n}, err
	})
	*p = parsed
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Pattern) UnmarshalText(text []byte) error { return p.Set(string(text)) }

func (p Pattern) validate() error {
	total := 0
	for _, c := range p {
		if c.Count < 1 || c.Count > MaxPattern {
			return fmt.Errorf("the number of %s is %d, out of range (1 to %d)", c.Op, c.Count,
				MaxPattern)
		}
		if total += c.Count; total > MaxPattern {
			return fmt.Errorf("more than %d operations in one iteration; use fewer", MaxPattern)
		}
		if err := checkOps([]string{c.Op}); err != nil { // an operation may occur more than once
			return err
		}
	}
	return nil
}

// checkOps rejects unknown and duplicate names.
func checkOps(names []string) error {
	for i, name := range names {
		if known := OpNames(); !slices.Contains(known, name) {
			return fmt.Errorf("%q is not one of %s%s", name, strings.Join(known, ", "),
				suggest.For(name, known))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%s is given twice", name)
		}
	}
	return nil
}

func joinOps[T any](list []T, show func(T) string) string {
	if len(list) == 0 {
		return none
	}
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = show(item)
	}
	return strings.Join(parts, ",")
}

// parseOps parses a list of op:number; "none" and "" are the empty list.
func parseOps[T any](text string, parse func(op, number string) (T, error)) ([]T, error) {
	if text == "" || text == none {
		return nil, nil
	}
	var list []T
	for item := range strings.SplitSeq(text, ",") {
		op, number, found := strings.Cut(item, ":")
		if !found {
			return nil, fmt.Errorf("%q is not operation:number", shorten(item))
		}
		parsed, err := parse(strings.TrimSpace(op), strings.TrimSpace(number))
		if err != nil {
			return nil, err
		}
		list = append(list, parsed)
	}
	return list, nil
}

// operations yields the operations of a store and how often each occurs, as shares or counts.
func (c *Config) operations() iter.Seq2[string, float64] {
	return func(yield func(op string, weight float64) bool) {
		switch {
		case len(c.Pattern) > 0:
			for _, o := range c.Pattern {
				if !yield(o.Op, float64(o.Count)) {
					return
				}
			}
		case len(c.Mix) > 0:
			for _, o := range c.Mix {
				if !yield(o.Op, o.Share) {
					return
				}
			}
		default:
			_ = yield(OpRead, c.ReadRatio) && yield(OpWrite, 1-c.ReadRatio)
		}
	}
}

// ReadsValues reports whether any operation reads a value.
func (c *Config) ReadsValues() bool {
	_, back, _ := c.values()
	return back > 0
}

// Payloads returns the mean bytes of a request and of its response, without a transport's header.
func (c *Config) Payloads() (forth, back float64) {
	if c.Part != nil {
		return MessageHeader + c.Part.Forth, MessageHeader + c.Part.Back
	}
	value := c.ValueSize.Mean()
	forth, back, requests := c.values()
	return MessageHeader + value*forth/requests, MessageHeader + value*back/requests
}

// values returns how many values so many requests and their responses have.
func (c *Config) values() (forth, back, requests float64) {
	switch c.Service {
	case ServiceEcho:
		return 1, 1, 1
	case ServiceSink:
		return 1, 0, 1
	}
	for op, weight := range c.operations() {
		requests += weight
		switch op {
		case OpRead:
			back += weight
		case OpWrite, OpInsert:
			forth += weight
		case OpRMW: // two requests
			requests += weight
			forth, back = forth+weight, back+weight
		}
	}
	return forth, back, requests
}
