package replay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"transportbench/core/base/config"
)

// Record is one request.
type Record struct {
	At     uint64 // nanoseconds since the begin of the part
	Key    uint32 // below File.Keys
	Size   uint32 // bytes of the value to write; of a read, those that the trace says
	Client uint32 // requests of one client of the trace have the same number
	Op     uint8  // an index of [config.OpNames]: read, write, lookup or rmw
	// Joined means that the request belongs to the one before: both are parts of one request of
	// the trace.
	Joined bool
}

const (
	headerSize = 64
	recordSize = 24
	sizeSize   = 4
	magic      = "tbreplay"
	version    = 1
)

func (r *Record) encode(b []byte) {
	_ = b[recordSize-1]
	binary.LittleEndian.PutUint64(b, r.At)
	binary.LittleEndian.PutUint32(b[8:], r.Key)
	binary.LittleEndian.PutUint32(b[12:], r.Size)
	binary.LittleEndian.PutUint32(b[16:], r.Client)
	b[20], b[21] = r.Op, 0
	if r.Joined {
		b[21] = 1
	}
	b[22], b[23] = 0, 0
}

func (r *Record) decode(b []byte) {
	_ = b[recordSize-1]
	r.At = binary.LittleEndian.Uint64(b)
	r.Key = binary.LittleEndian.Uint32(b[8:])
	r.Size = binary.LittleEndian.Uint32(b[12:])
	r.Client = binary.LittleEndian.Uint32(b[16:])
	r.Op, r.Joined = b[20], b[21] != 0
}

// Writer writes a file of records.
type Writer struct {
	file    *os.File
	buffer  *bufio.Writer
	scratch [recordSize]byte
	records uint64
}

// NewWriter returns a writer to an empty file, which stays the caller's.
func NewWriter(file *os.File) (*Writer, error) {
	w := &Writer{file: file, buffer: bufio.NewWriterSize(file, 1<<20)}
	_, err := w.buffer.Write(make([]byte, headerSize))
	return w, err
}

// Add appends a record. Records are in the order of their times.
func (w *Writer) Add(r *Record) error {
	r.encode(w.scratch[:])
	w.records++
	_, err := w.buffer.Write(w.scratch[:])
	return err
}

// Records returns the number of records so far.
func (w *Writer) Records() uint64 { return w.records }

// Spread moves requests that have the same time apart, evenly, up to the next later time. After
// the last time they are spaced as before it. It serves traces with rounded times.
// Call it after the last Add and before Finish.
func (w *Writer) Spread() error {
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	read, write := w.reader(0), w.reader(0)
	step := uint64(0)
	for first := uint64(0); first < w.records; {
		n, starts := uint64(0), uint64(0)
		var at, next uint64
		for ; first+n < w.records; n++ {
			r, err := read.next()
			if err != nil {
				return err
			}
			if n == 0 {
				at = r.At
			} else if r.At != at {
				next = r.At
				read.back()
				break
			}
			if !r.Joined || n == 0 {
				starts++
			}
		}
		if next > at {
			step = next - at
		}
		began := uint64(0)
		for i := range n {
			r, err := write.next()
			if err != nil {
				return err
			}
			if !r.Joined && i > 0 {
				began++
			}
			r.At = at + uint64(float64(step)*float64(began)/float64(starts))
			write.replace(r)
		}
		first += n
	}
	return write.flush()
}

// Finish writes the sizes of the keys' values and the header, which make the file complete.
func (w *Writer) Finish(sizes []uint32) error {
	for _, size := range sizes {
		binary.LittleEndian.PutUint32(w.scratch[:], size)
		if _, err := w.buffer.Write(w.scratch[:sizeSize]); err != nil {
			return err
		}
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	header := make([]byte, headerSize)
	copy(header, magic)
	binary.LittleEndian.PutUint64(header[8:], version)
	binary.LittleEndian.PutUint64(header[16:], w.records)
	binary.LittleEndian.PutUint64(header[24:], uint64(len(sizes)))
	_, err := w.file.WriteAt(header, 0)
	return err
}

// window is a stretch of a file's records that is read, and written back where it changed.
type window struct {
	file    *os.File
	memory  []byte
	first   uint64 // record at the start of memory
	at      uint64 // the next record
	end     uint64
	changed bool
}

func (w *Writer) reader(first uint64) *window {
	return &window{file: w.file, first: first, at: first, end: w.records}
}

func (w *window) next() (r Record, err error) {
	offset := (w.at - w.first) * recordSize
	if offset == uint64(len(w.memory)) {
		if err := w.flush(); err != nil {
			return r, err
		}
		w.first, offset = w.at, 0
		w.memory = make([]byte, min(w.end-w.at, 1<<15)*recordSize)
		if _, err := w.file.ReadAt(w.memory, headerSize+int64(w.first)*recordSize); err != nil {
			return r, err
		}
	}
	r.decode(w.memory[offset:])
	w.at++
	return r, nil
}

// back returns to the record before, which is in memory.
func (w *window) back() { w.at-- }

// replace replaces the record that next returned.
func (w *window) replace(r Record) {
	r.encode(w.memory[(w.at-1-w.first)*recordSize:])
	w.changed = true
}

func (w *window) flush() error {
	if !w.changed {
		return nil
	}
	w.changed = false
	_, err := w.file.WriteAt(w.memory, headerSize+int64(w.first)*recordSize)
	return err
}

// File is a complete file of records. Its methods may be called by several goroutines.
type File struct {
	file *os.File
	// Records is the number of records, and Keys that of distinct keys.
	Records, Keys uint64
	largest       uint32
}

var errTorn = errors.New("it is not a complete prepared trace")

// Open opens a file. It refuses one with a value larger than largest bytes.
func Open(path string, largest int) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := NewFile(file, largest)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), file.Close())
	}
	return f, nil
}

// NewFile is [Open] for a file that is open.
func NewFile(file *os.File, largest int) (*File, error) {
	f := &File{file: file, largest: uint32(min(largest, config.MaxValueSize))}
	return f, f.readHeader()
}

func (f *File) readHeader() error {
	header := make([]byte, headerSize)
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if _, err := f.file.ReadAt(header, 0); err != nil || string(header[:8]) != magic ||
		binary.LittleEndian.Uint64(header[8:]) != version {
		return errTorn
	}
	f.Records = binary.LittleEndian.Uint64(header[16:])
	f.Keys = binary.LittleEndian.Uint64(header[24:])
	size := uint64(info.Size())
	if f.Records == 0 || f.Keys == 0 || f.Records > size || f.Keys > config.MaxKeys ||
		headerSize+f.Records*recordSize+f.Keys*sizeSize != size {
		return errTorn
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Sizes returns the size of each key's value before the first request.
func (f *File) Sizes() ([]uint32, error) {
	sizes := make([]uint32, f.Keys)
	r := bufio.NewReaderSize(io.NewSectionReader(f.file, headerSize+int64(f.Records)*recordSize,
		int64(f.Keys)*sizeSize), 1<<16)
	var b [sizeSize]byte
	for i := range sizes {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, err
		}
		if sizes[i] = binary.LittleEndian.Uint32(b[:]); sizes[i] > f.largest {
			return nil, fmt.Errorf("key %d of the prepared trace has %d bytes, more than %d", i,
				sizes[i], f.largest)
		}
	}
	return sizes, nil
}

// Read reads the records from the number first on into dst, through memory, which must have room
// for [Room] bytes of each. It returns how many it has read, 0 at the end. It allocates nothing.
func (f *File) Read(dst []Record, memory []byte, first uint64) (int, error) {
	n := int(min(uint64(len(dst)), f.Records-min(first, f.Records)))
	if n == 0 {
		return 0, nil
	}
	memory = memory[:n*recordSize]
	if _, err := f.file.ReadAt(memory, headerSize+int64(first)*recordSize); err != nil {
		return 0, err
	}
	for i := range dst[:n] {
		r := &dst[i]
		r.decode(memory[i*recordSize:])
		if uint64(r.Key) >= f.Keys || r.Size > f.largest || int(r.Op) >= len(ops) || !ops[r.Op] {
			return i, errTorn
		}
	}
	return n, nil
}

// Room is the number of bytes of memory that [File.Read] needs for a record.
const Room = recordSize

// ops has the operations that a record may have.
var ops = func() []bool {
	allowed := make([]bool, len(config.OpNames()))
	for i, name := range config.OpNames() {
		allowed[i] = name != config.OpInsert
	}
	return allowed
}()
