package host

import (
	"bytes"
	"io"
	"sync"
)

// handshakeMax is the longest first line that can be a handshake.
const handshakeMax = 4096

// handshakeReader gives go-plugin the first line of a plugin's output and then
// an end. What comes later, which native libraries write, goes to rest: go-plugin
// would stop to read at a long line, and the plugin to write.
type handshakeReader struct {
	source io.ReadCloser
	rest   io.Writer
	passed int
	ended  bool
}

func (h *handshakeReader) Read(p []byte) (int, error) {
	if h.ended {
		return 0, io.EOF
	}
	n, err := h.source.Read(p)
	line := p[:n]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end+1]
		h.ended = true
	}
	h.passed += len(line)
	if h.passed >= handshakeMax || err != nil {
		h.ended = true
	}
	if h.ended {
		_, _ = h.rest.Write(bytes.Clone(p[len(line):n]))
		go h.drain()
	}
	return len(line), nil
}

// drain ends with the process, or a little later where somebody else holds the
// pipe open.
func (h *handshakeReader) drain() {
	_, _ = io.Copy(h.rest, h.source)
	_ = h.source.Close()
}

// Close implements [io.Closer]; drain closes the source.
func (h *handshakeReader) Close() error { return nil }

// endReader says when all has been read, and makes any error an end: a deadline
// on the pipe of a dead process is no news.
type endReader struct {
	source io.ReadCloser
	once   sync.Once
	ended  chan struct{}
}

func (e *endReader) Read(p []byte) (int, error) {
	n, err := e.source.Read(p)
	if err != nil {
		e.once.Do(func() {
			_ = e.source.Close()
			close(e.ended)
		})
		err = io.EOF
	}
	return n, err
}

// Close implements [io.Closer]; the last Read closes the source.
func (e *endReader) Close() error { return nil }
