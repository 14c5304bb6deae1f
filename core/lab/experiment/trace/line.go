package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/replay"
	"transportbench/core/fabric/suggest"
)

// parser turns the lines of a trace into the fields of its format.
type parser struct {
	*format
	json    bool
	columns []field // of a CSV file
	// values are those of the last line.
	values [numFields][]byte
}

// newParser returns the parser of a trace that begins with line, and whether that line is a
// header. A nil format is found by what the line has.
func newParser(line []byte, want *format) (p *parser, header bool, err error) {
	var problems []error
	for i := range formats {
		f := &formats[i]
		if want != nil && want != f {
			continue
		}
		p := &parser{format: f, json: line[0] == '{'}
		header, err := p.begin(line)
		if err == nil {
			return p, header, nil
		}
		problems = append(problems, err)
	}
	if want != nil {
		return nil, false, fmt.Errorf("it is not of the format %s: %w", want.name, problems[0])
	}
	names, _ := Formats()
	return nil, false, fmt.Errorf("it is of no known format: name the columns in the first line "+
		"as in time,op,key,size, or choose one of %s", strings.Join(names, ", "))
}

// begin finds the columns by the first line, and reports whether that is a header.
func (p *parser) begin(line []byte) (header bool, err error) {
	if p.json {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(line, &object); err != nil {
			return false, plain(err)
		}
		for name := range object {
			of, _ := p.fieldNamed(name)
			p.columns = append(p.columns, of)
		}
		if lacks := p.missing(p.columns); lacks != "" {
			return false, fmt.Errorf("it has no %s", lacks)
		}
		return false, nil
	}
	cells := split(nil, line)
	for _, cell := range cells {
		of, _ := p.fieldNamed(string(cell))
		if of != ignored && slices.Contains(p.columns, of) {
			return false, fmt.Errorf("two of its columns are the %s", p.nameOf(of))
		}
		p.columns = append(p.columns, of)
	}
	if p.missing(p.columns) == "" {
		return true, nil
	}
	if p.required == 0 {
		return false, errors.New("it is not a JSON object")
	}
	if len(cells) < p.required || len(cells) > len(p.format.columns) {
		return false, fmt.Errorf("it has %d columns", len(cells))
	}
	p.columns = p.format.columns[:len(cells)]
	if err := p.parse(line); err != nil {
		return false, err
	}
	if _, err := p.time(); err != nil {
		return false, err
	}
	_, err = p.op()
	return false, err
}

// parse reads the values of a line. They are valid until the line is not.
func (p *parser) parse(line []byte) error {
	clear(p.values[:])
	if p.json {
		return p.parseObject(line)
	}
	var memory [16][]byte
	cells := split(memory[:0], line)
	if len(cells) != len(p.columns) {
		return fmt.Errorf("it has %d columns and not %d", len(cells), len(p.columns))
	}
	for i, cell := range cells {
		p.values[p.columns[i]] = cell
	}
	return nil
}

// parseObject is parse of JSON. Of several names of a field, the one that the format lists first
// counts.
func (p *parser) parseObject(line []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return plain(err)
	}
	var found [numFields]int // which name, counted from 1
	for name, value := range object {
		of, which := p.fieldNamed(name)
		if found[of] > 0 && found[of] <= which || string(value) == "null" {
			continue
		}
		found[of] = which + 1
		if len(value) > 0 && value[0] == '"' {
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				return err
			}
			value = []byte(text)
		}
		p.values[of] = value
	}
	for _, need := range p.needs() {
		if p.values[need] == nil {
			return fmt.Errorf("it has no %s", p.nameOf(need))
		}
	}
	return nil
}

// plain returns an error of JSON without the package's name.
func plain(err error) error {
	return errors.New("it is not a JSON object: " + strings.TrimPrefix(err.Error(), "json: "))
}

// split appends the cells of a line of CSV. A cell in quotes may have commas, and two quotes for
// one.
func split(cells [][]byte, line []byte) [][]byte {
	for {
		var cell []byte
		if len(line) > 0 && line[0] == '"' {
			end := 1
			for end < len(line) && (line[end] != '"' || end+1 < len(line) && line[end+1] == '"') {
				if line[end] == '"' {
					end++
				}
				end++
			}
			cell = bytes.ReplaceAll(line[1:min(end, len(line))], []byte(`""`), []byte(`"`))
			line = line[min(end+1, len(line)):]
		}
		before, after, more := bytes.Cut(line, []byte{','})
		if cell == nil {
			cell = bytes.TrimSpace(before)
		}
		cells = append(cells, cell)
		if !more {
			return cells
		}
		line = after
	}
}

// latest is the largest time of a trace. Times since 1970 are below it.
const latest = 100 * 365 * 24 * time.Hour

// time returns the time of the line in nanoseconds.
func (p *parser) time() (uint64, error) {
	text := string(p.values[when])
	whole, fraction, _ := strings.Cut(text, ".")
	if n, err := strconv.ParseUint(whole, 10, 63); err == nil && digits(fraction) {
		if n > uint64(latest/p.unit) {
			return 0, fmt.Errorf("time %s is more than a century", shorten(text))
		}
		ns := n * uint64(p.unit)
		for scale := uint64(p.unit) / 10; scale > 0 && fraction != ""; scale /= 10 {
			ns += uint64(fraction[0]-'0') * scale
			fraction = fraction[1:]
		}
		return ns, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(value):
		return 0, fmt.Errorf("%q is not a time", shorten(text))
	case value < 0:
		return 0, fmt.Errorf("time %s is negative", shorten(text))
	case value > float64(latest/p.unit):
		return 0, fmt.Errorf("time %s is more than a century", shorten(text))
	}
	return uint64(value * float64(p.unit)), nil
}

func digits(text string) bool { return strings.Trim(text, "0123456789") == "" }

func (p *parser) op() (uint8, error) {
	text := strings.ToLower(string(p.values[operation]))
	name, known := operations[text]
	if !known {
		names := make([]string, 0, len(operations))
		for name := range operations {
			names = append(names, name)
		}
		return 0, fmt.Errorf("%q is not an operation such as read, write, lookup or "+
			"read-modify-write%s", shorten(text), suggest.For(text, names))
	}
	return replay.OpOf(name), nil
}

// size returns the size of the value, 0 if the line has none.
func (p *parser) size() (uint32, error) {
	text := p.values[size]
	if len(text) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > config.MaxValueSize:
		return 0, fmt.Errorf("size %s exceeds %s", shorten(string(text)),
			config.Size(config.MaxValueSize))
	case err != nil:
		return 0, fmt.Errorf("%q is not a size in bytes", shorten(string(text)))
	}
	return uint32(n), nil
}

// maxTokens bounds the tokens of a prompt or an answer.
const maxTokens = 1 << 30

func (p *parser) tokens(of field) (int64, error) {
	n, err := strconv.ParseInt(string(p.values[of]), 10, 64)
	if err != nil || n < 0 || n > maxTokens {
		return 0, fmt.Errorf("%q is not a number of tokens", shorten(string(p.values[of])))
	}
	return n, nil
}

func shorten(text string) string {
	const limit = 40
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
