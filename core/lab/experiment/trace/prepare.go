package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/zeebo/xxh3"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/replay"
)

// Options choose the part of a trace, and how it is read.
type Options struct {
	Format    string        // its name; empty to find it
	From, For time.Duration // since the first request; a For of 0 is up to the end
	// BytesPerToken is the size of a token of formats that have tokens.
	BytesPerToken int64
}

// MaxKeys is the number of keys that are told apart. Other keys share an entry of the store with
// one of them. A trace of that many takes about 256 MiB while it is read.
const MaxKeys = 1 << 22

// Prepare reads a trace and writes a part of it to a new file, to, as package replay describes. It
// returns an error of one line if the trace is not a valid one.
func Prepare(from io.Reader, o Options, to *os.File) (*replay.Part, error) {
	s, err := newSource(from)
	if err != nil {
		return nil, err
	}
	defer s.close()
	line, err := s.line()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it has no requests")
	} else if err != nil {
		return nil, err
	}
	var want *format
	if o.Format != "" {
		if want, err = formatNamed(o.Format); err != nil {
			return nil, err
		}
	}
	p, header, err := newParser(line, want)
	if err != nil {
		return nil, s.wrong("%w", err)
	}
	if p.format.tokens > 0 && o.BytesPerToken == 0 {
		return nil, fmt.Errorf("the format %s has tokens; say how large one is, with --model or "+
			"--bytes-per-token", p.name)
	}
	if largest := o.BytesPerToken * p.format.tokens; largest > config.MaxValueSize {
		return nil, fmt.Errorf("blocks of %d tokens of %s exceed %s", p.format.tokens,
			config.Size(o.BytesPerToken), config.Size(config.MaxValueSize))
	}
	w, err := replay.NewWriter(to)
	if err != nil {
		return nil, err
	}
	r := &reader{source: s, parser: p, options: o, writer: w, ids: map[uint64]uint32{},
		classes: map[string]uint64{}, end: math.MaxUint64}
	if o.For > 0 {
		r.end = uint64(o.From + o.For)
	}
	for first := true; ; first = false {
		if !(first && header) {
			if err := r.add(line); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, s.wrong("%w", err)
			}
		}
		if line, err = s.line(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return r.finish(to)
}

// reader reads requests into a file of records.
type reader struct {
	source  *source
	parser  *parser
	options Options
	writer  *replay.Writer
	ids     map[uint64]uint32 // of keys, by the hash of what the trace calls them
	sizes   []uint32          // by id: of the first value
	shared  uint64
	classes map[string]uint64

	requests    uint64 // of the trace, in the part
	first, last uint64 // times of the trace
	end         uint64 // of the part, since first
	began       bool
	reads, hits uint64
	record      replay.Record
}

// add adds the request of a line. It returns [io.EOF] after the end of the part.
func (r *reader) add(line []byte) error {
	p := r.parser
	if err := p.parse(line); err != nil {
		return err
	}
	at, err := p.time()
	switch {
	case err != nil:
		return err
	case !r.began:
		r.first, r.last, r.began = at, at, true
	case at < r.last:
		return fmt.Errorf("time %s is before that of the request before; sort the trace by time",
			p.values[when])
	}
	r.last = at
	at -= r.first
	if at >= r.end {
		return io.EOF
	}
	if at < uint64(r.options.From) {
		return nil
	}
	r.record = replay.Record{At: at - uint64(r.options.From)}
	r.record.Client = uint32(r.requests)
	if named := p.values[client]; len(named) > 0 {
		r.record.Client = uint32(xxh3.Hash(named) >> 32)
	}
	if named := p.values[class]; len(named) > 0 {
		r.countClass(string(named))
	}
	r.requests++
	if p.format.tokens > 0 {
		return r.addBlocks()
	}
	op, err := p.op()
	if err != nil {
		return err
	}
	size, err := p.size()
	if err != nil {
		return err
	}
	return r.write(op, xxh3.Hash(p.values[key]), size)
}

// maxClasses bounds the classes that are told apart.
const maxClasses = 64

func (r *reader) countClass(name string) {
	if _, known := r.classes[name]; !known && len(r.classes) == maxClasses {
		name = "others"
	}
	r.classes[shorten(name)]++
}

// addBlocks adds the requests for the blocks of a prompt: a lookup of each block up to the first
// that is not known, a read of each known one, and a write of each other one and of each block
// that was generated.
func (r *reader) addBlocks() error {
	prompt, err := r.parser.tokens(input)
	if err != nil {
		return err
	}
	generated, err := r.parser.tokens(output)
	if err != nil {
		return err
	}
	var ids []json.Number
	if err := json.Unmarshal(r.parser.values[blocks], &ids); err != nil {
		return fmt.Errorf("hash_ids are not a list of numbers")
	}
	block := r.parser.format.tokens
	size := func(left int64) uint32 { return uint32(min(left, block) * r.options.BytesPerToken) }
	known := 0
	for ; known < len(ids); known++ {
		hash := xxh3.HashString(string(ids[known]))
		if _, hit := r.ids[hash]; !hit {
			break
		}
		if err := r.write(replay.OpLookup, hash, 0); err != nil {
			return err
		}
	}
	r.reads, r.hits = r.reads+uint64(len(ids)), r.hits+uint64(known)
	for i, id := range ids {
		op, left := replay.OpRead, prompt-int64(i)*block
		if i >= known {
			op = replay.OpWrite
		}
		if left <= 0 {
			return fmt.Errorf("%d hash_ids are more than %d tokens have", len(ids), prompt)
		}
		hash := xxh3.HashString(string(id))
		if i == known {
			if err := r.write(replay.OpLookup, hash, size(left)); err != nil {
				return err
			}
		}
		if err := r.write(op, hash, size(left)); err != nil {
			return err
		}
	}
	for i := int64(0); i*block < generated; i++ {
		var name [24]byte // of a block of no other request
		binary.LittleEndian.PutUint64(name[:], r.requests)
		binary.LittleEndian.PutUint64(name[8:], uint64(i))
		if err := r.write(replay.OpWrite, xxh3.Hash(name[:]), size(generated-i*block)); err != nil {
			return err
		}
	}
	return nil
}

// write writes a record. Those after the first of a request are joined to it.
func (r *reader) write(op uint8, hash uint64, size uint32) error {
	id, known := r.ids[hash]
	switch {
	case known:
	case len(r.ids) < MaxKeys:
		id = uint32(len(r.ids))
		r.ids[hash] = id
		r.sizes = append(r.sizes, size)
	default:
		id = uint32(hash % MaxKeys)
		r.shared++
	}
	if r.sizes[id] == 0 {
		r.sizes[id] = size
	}
	if op != replay.OpWrite && r.parser.format.tokens == 0 {
		r.reads++
		if known {
			r.hits++
		}
	}
	r.record.Op, r.record.Key, r.record.Size = op, id, size
	err := r.writer.Add(&r.record)
	r.record.Joined = true
	return err
}

func (r *reader) finish(to *os.File) (*replay.Part, error) {
	if r.writer.Records() == 0 {
		return nil, fmt.Errorf("no request is in the part: the trace ends after %v",
			time.Duration(r.last-r.first))
	}
	if r.parser.rounded {
		if err := r.writer.Spread(); err != nil {
			return nil, err
		}
	}
	if err := r.writer.Finish(r.sizes); err != nil {
		return nil, err
	}
	digest, err := r.source.sum()
	if err != nil {
		return nil, err
	}
	p := &replay.Part{Digest: digest, Format: r.parser.name, From: r.options.From,
		Rounded: r.parser.rounded, Bytes: r.source.raw.n, Shared: r.shared}
	r.ids, r.sizes = nil, nil // before the summary needs memory
	f, err := replay.NewFile(to, config.MaxValueSize)
	if err != nil {
		return nil, err
	}
	if p.Summary, err = replay.Summarize(f); err != nil {
		return nil, err
	}
	p.Requests, p.Classes = r.requests, r.classes
	if r.reads > 0 {
		p.HitRate = float64(r.hits) / float64(r.reads)
	}
	if length := uint64(r.options.For); length > 0 && r.last-r.first >= r.end {
		p.Length = time.Duration(length) // the trace goes on
	}
	return p, nil
}

// Stdin is the path that stands for standard input.
const Stdin = "-"

// PrepareFile is [Prepare] for a file that the user named. The error begins with its name.
func PrepareFile(path string, stdin io.Reader, o Options, to *os.File) (*replay.Part, error) {
	from := stdin
	if path != Stdin {
		file, err := files.OpenArgument(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer file.Close()
		from = file
	}
	p, err := Prepare(from, o, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
