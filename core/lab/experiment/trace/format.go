package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/fabric/suggest"
)

// field is what a column of a trace says.
type field uint8

const (
	ignored field = iota
	when
	operation
	key
	size
	client
	class
	input  // tokens of a prompt
	output // tokens that were generated
	blocks // ids of the blocks of a prompt
	numFields
)

// format is how traces of a kind are written.
type format struct {
	name, about string
	// names are those of the fields in the header of a CSV file or in an object.
	names map[field][]string
	// columns has the fields of a CSV file without a header. The first required must be there.
	columns  []field
	required int
	unit     time.Duration // of times without a unit
	// rounded means that several requests in a row have one time, rounded. They are spread evenly
	// up to the next time.
	rounded bool
	// tokens, if not 0, is the number of tokens of a block: a request stands for blocks, of which
	// it looks up the known ones at its begin, reads those, and writes the others and what it
	// generates.
	tokens int64
}

var formats = []format{
	{
		name: "requests", about: "time (s), operation, key, size, and optionally client and " +
			"class; CSV with or without a header, or JSON lines. Also CSV of memcached and YCSB",
		names: map[field][]string{
			when:      {"time", "timestamp", "ts"},
			operation: {"op", "operation", "command", "cmd", "type"},
			key:       {"key", "obj_id", "object_id", "id"},
			size:      {"size", "value_size", "obj_size", "bytes"},
			client:    {"client", "client_id", "tenant"},
			class:     {"class"},
		},
		columns: []field{when, operation, key, size, client, class}, required: 4, unit: time.Second,
	},
	{
		name: "twitter", about: "Twitter's cache traces: time (s), key, size of the key, size of " +
			"the value, client, operation, TTL",
		columns: []field{when, key, ignored, size, client, operation, ignored}, required: 7,
		unit: time.Second, rounded: true,
	},
	{
		name: "mooncake", about: "Mooncake's traces: timestamp (ms), input_length, " +
			"output_length, hash_ids of 512 tokens each; JSON lines",
		names: map[field][]string{when: {"timestamp"}, input: {"input_length"},
			output: {"output_length"}, blocks: {"hash_ids"}},
		unit: time.Millisecond, rounded: true, tokens: 512,
	},
}

// operations has the operation for each name in a trace, in lower case. The store has no other
// ones, so what changes an entry writes it, and what touches or removes one looks it up.
var operations = map[string]string{
	"read": config.OpRead, "get": config.OpRead, "gets": config.OpRead, "scan": config.OpRead,
	"write": config.OpWrite, "set": config.OpWrite, "add": config.OpWrite, "put": config.OpWrite,
	"replace": config.OpWrite, "cas": config.OpWrite, "append": config.OpWrite,
	"prepend": config.OpWrite, "update": config.OpWrite, "insert": config.OpWrite,
	"rmw": config.OpRMW, "read-modify-write": config.OpRMW, "readmodifywrite": config.OpRMW,
	"incr": config.OpRMW, "decr": config.OpRMW,
	"lookup": config.OpLookup, "exists": config.OpLookup, "head": config.OpLookup,
	"touch": config.OpLookup, "delete": config.OpLookup,
}

// Formats returns the name of each format, and what it is.
func Formats() (names, about []string) {
	for _, f := range formats {
		names, about = append(names, f.name), append(about, f.about)
	}
	return names, about
}

// formatNamed returns the format with a name.
func formatNamed(name string) (*format, error) {
	names, _ := Formats()
	at := slices.Index(names, name)
	if at < 0 {
		return nil, fmt.Errorf("%q is not one of %s%s", name, strings.Join(names, ", "),
			suggest.For(name, names))
	}
	return &formats[at], nil
}

// needs returns the fields that every request must have.
func (f *format) needs() []field {
	if f.tokens > 0 {
		return []field{when, input, output, blocks}
	}
	return []field{when, operation, key, size}
}

// fieldNamed returns the field that a header or an object calls name, and which of the field's
// names that is.
func (f *format) fieldNamed(name string) (of field, which int) {
	name = strings.ToLower(strings.TrimSpace(name))
	for of, names := range f.names {
		if which := slices.Index(names, name); which >= 0 {
			return of, which
		}
	}
	return ignored, 0
}

// missing returns the name of a field that is needed and not among those, or "".
func (f *format) missing(fields []field) string {
	for _, need := range f.needs() {
		if !slices.Contains(fields, need) {
			return f.nameOf(need)
		}
	}
	return ""
}

// nameOf returns the first name of a field.
func (f *format) nameOf(of field) string {
	if names := f.names[of]; len(names) > 0 {
		return names[0]
	}
	return "names of its columns"
}
