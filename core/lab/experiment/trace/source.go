package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The bounds of what a trace may need. A line is a request. Traces are compressed to a third to a
// thirtieth; what expands to more than maxExpansion times its size is not one.
const (
	longestLine  = 1 << 20
	maxExpansion = 300
	surelyFine   = 256 << 20 // bytes that may have any expansion
	zstdWindow   = 128 << 20
)

// source reads the lines of a trace, which may be compressed.
type source struct {
	raw     *counted
	text    *bufio.Reader
	close   func()
	read    int64 // bytes of text
	number  int   // of the line
	partial []byte
}

// counted counts and digests the bytes that it reads.
type counted struct {
	io.Reader
	digest hash.Hash
	n      int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.digest.Write(b[:n])
	c.n += int64(n)
	return n, err
}

func newSource(from io.Reader) (*source, error) {
	s := &source{raw: &counted{Reader: from, digest: sha256.New()}, close: func() {}}
	head := bufio.NewReaderSize(s.raw, 1<<16)
	magic, err := head.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var text io.Reader = head
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		if text, err = gzip.NewReader(head); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		text, s.close = d, d.Close
	}
	s.text = bufio.NewReaderSize(text, 1<<18)
	return s, nil
}

// line returns the next line that is not empty, without its end. It is valid until the next call.
// The error is [io.EOF] after the last one.
func (s *source) line() ([]byte, error) {
	for {
		line, err := s.whole()
		if len(line) == 0 && err != nil {
			return nil, err
		}
		s.number++
		if s.read > surelyFine && s.read > maxExpansion*s.raw.n {
			return nil, fmt.Errorf("it expands to more than %d times its size, as no trace does; "+
				"decompress it first if it is one", maxExpansion)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (s *source) whole() ([]byte, error) {
	s.partial = s.partial[:0]
	for {
		part, err := s.text.ReadSlice('\n')
		s.read += int64(len(part))
		switch {
		case len(s.partial)+len(part) > longestLine:
			s.number++
			return nil, s.wrong("it is longer than %d bytes", longestLine)
		case errors.Is(err, bufio.ErrBufferFull):
			s.partial = append(s.partial, part...)
			continue
		case err != nil && !errors.Is(err, io.EOF):
			s.number++
			return nil, s.wrong("%w", err)
		case len(s.partial) > 0:
			return append(s.partial, part...), err
		}
		return part, err
	}
}

// wrong returns an error about the current line.
func (s *source) wrong(text string, args ...any) error {
	return fmt.Errorf("line %d: %w", s.number, fmt.Errorf(text, args...))
}

// sum reads the rest of the file, and returns the digest of all its bytes.
func (s *source) sum() (string, error) {
	if _, err := io.Copy(io.Discard, s.raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(s.raw.digest.Sum(nil)), nil
}
