package host

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
)

// handshakeMax is the length of the longest handshake line in bytes.
const handshakeMax = 4096

// handshakeReader gives go-plugin the first line of a plugin's standard output, then io.EOF. The
// rest, which native libraries write, goes to rest: go-plugin would stop reading at a long line,
// and the plugin would block.
type handshakeReader struct {
	source io.ReadCloser
	rest   io.Writer
	passed int
	ended  bool
	empty  atomic.Bool // the output ended before a line
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
		h.empty.Store(h.passed == 0)
	}
	if h.ended {
		_, _ = h.rest.Write(bytes.Clone(p[len(line):n]))
		go h.drain()
	}
	return len(line), nil
}

// drain copies the rest of the output. It ends with the process, or lateOutput later if another
// process keeps the pipe open.
func (h *handshakeReader) drain() {
	_, _ = io.Copy(h.rest, h.source)
	_ = h.source.Close()
}

// Close implements [io.Closer]; drain closes the source.
func (h *handshakeReader) Close() error { return nil }

// endReader closes ended when it has read everything. It returns io.EOF for any error: after the
// process has died, a deadline on its pipe is expected.
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

const (
	tailLines   = 32
	tailLineMax = 1024 // bytes kept of a line
)

// tail keeps the last lines of a plugin's output, and the line that explains a crash, which a long
// stack trace would push out. It is safe for concurrent use, and writing to it never fails.
type tail struct {
	mu      sync.Mutex
	lines   []string
	partial []byte
	crash   string
}

// crashPrefixes begin the lines in which the Go runtime explains a crash.
var crashPrefixes = []string{"panic: ", "fatal error: ", "runtime: out of memory", "SIG"}

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	written := len(data)
	for {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		if room := tailLineMax - len(t.partial); room > 0 {
			t.partial = append(t.partial, line[:min(room, len(line))]...)
		}
		if !ended {
			return written, nil
		}
		t.add(string(t.partial))
		t.partial = t.partial[:0]
		data = rest
	}
}

func (t *tail) add(line string) {
	line = strings.TrimRight(line, "\r ")
	if line == "" {
		return
	}
	for _, prefix := range crashPrefixes {
		if t.crash == "" && strings.HasPrefix(line, prefix) {
			t.crash = line
		}
	}
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

// all returns the lines kept, including an unfinished last line.
func (t *tail) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append([]string(nil), t.lines...)
	if len(t.partial) > 0 {
		lines = append(lines, string(t.partial))
	}
	return lines
}

// reason returns the line that most likely explains what went wrong, or "".
func (t *tail) reason() string {
	lines := t.all()
	t.mu.Lock()
	crash := t.crash
	t.mu.Unlock()
	if crash != "" || len(lines) == 0 {
		return crash
	}
	last := lines[len(lines)-1]
	var entry struct {
		Message string `json:"@message"`
		Error   string `json:"error"`
	}
	switch {
	case json.Unmarshal([]byte(last), &entry) != nil || entry.Message == "":
		return last
	case entry.Error != "":
		return entry.Message + ": " + entry.Error
	}
	return entry.Message
}
