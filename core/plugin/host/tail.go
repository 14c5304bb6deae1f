package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

const (
	tailLines   = 32
	tailLineMax = 1024 // bytes of a line that are kept
)

// tail keeps the last lines of what a plugin wrote, and the line that says why
// it crashed, which long stack traces would push out. It is safe for use from
// several goroutines and never fails.
type tail struct {
	mu      sync.Mutex
	lines   []string
	partial []byte
	cause   string
}

// crashes are how the Go runtime and the dynamic loader begin their last words.
var crashes = []string{"panic: ", "fatal error: ", "runtime: out of memory", "SIG"}

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
	if t.cause == "" {
		for _, prefix := range crashes {
			if strings.HasPrefix(line, prefix) {
				t.cause = line
			}
		}
	}
	if len(t.lines) == tailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

// all returns the lines kept, the unfinished last one included.
func (t *tail) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append([]string(nil), t.lines...)
	if len(t.partial) > 0 {
		lines = append(lines, string(t.partial))
	}
	return lines
}

// gist returns the one line that most likely says what went wrong, or "".
func (t *tail) gist() string {
	lines := t.all()
	t.mu.Lock()
	cause := t.cause
	t.mu.Unlock()
	if cause != "" || len(lines) == 0 {
		return cause
	}
	last := lines[len(lines)-1]
	var record struct {
		Message string `json:"@message"`
		Error   string `json:"error"`
	}
	if json.Unmarshal([]byte(last), &record) == nil && record.Message != "" {
		if record.Error != "" {
			return record.Message + ": " + record.Error
		}
		return record.Message
	}
	return last
}
