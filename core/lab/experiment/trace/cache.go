package trace

import (
	"errors"
	"io"
	"os"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/base/replay"
)

// Cache prepares parts of traces, each once, and keeps them until the process ends.
type Cache struct {
	stdin io.Reader // nil once it was read
	parts []*cached
}

// cached is a part that was prepared.
type cached struct {
	path string
	Options
	*replay.Part
	file *os.File
	load *config.Replay
}

// NewCache returns an empty cache. stdin is standard input.
func NewCache(stdin io.Reader) *Cache { return &Cache{stdin: stdin} }

// optionsOf returns the options of a configuration.
func optionsOf(c *config.Config) Options {
	return Options{Format: string(c.ReplayFormat), From: time.Duration(c.From),
		For: time.Duration(c.For), BytesPerToken: int64(c.BytesPerToken)}
}

// Prepare prepares the part that c names by the path of its trace.
func (t *Cache) Prepare(c *config.Config) (*config.Replay, error) {
	o := optionsOf(c)
	for _, p := range t.parts {
		if p.path == string(c.Replay) && p.Options == o {
			return p.load, nil
		}
	}
	if c.Replay == Stdin {
		if t.stdin == nil {
			return nil, errors.New("standard input was read for another part; use a file")
		}
		defer func() { t.stdin = nil }()
	}
	file, err := files.Temporary(os.TempDir())
	if err != nil {
		return nil, err
	}
	part, err := PrepareFile(string(c.Replay), t.stdin, o, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &cached{path: string(c.Replay), Options: o, Part: part, file: file, load: loadOf(part)}
	t.parts = append(t.parts, p)
	return p.load, nil
}

// Find returns the part of a configuration that replays one and the path of its prepared file, or
// nil.
func (t *Cache) Find(c *config.Config) (part *replay.Part, path string) {
	o := optionsOf(c)
	for _, p := range t.parts {
		was := p.Options
		was.Format = p.Part.Format
		if p.load.Name() == c.Replay && was == o {
			return p.Part, files.PathOf(p.file)
		}
	}
	return nil, ""
}

// loadOf returns what the configuration of a run needs of a part.
func loadOf(p *replay.Part) *config.Replay {
	load := &config.Replay{Digest: p.Digest, Format: p.Format, Length: p.Length,
		ValueSize: p.Sizes, Keys: p.Keys, WorkingSet: p.WorkingSet}
	messages := float64(p.Operations + p.ByOp[config.OpRMW])
	load.ReplayPart = config.ReplayPart{Operations: p.Operations,
		Forth: p.Forth * float64(p.Operations) / messages,
		Back:  p.Back * float64(p.Operations) / messages}
	for _, op := range config.OpNames() {
		if n := p.ByOp[op]; n > 0 {
			load.Mix = append(load.Mix, config.OpShare{Op: op,
				Share: float64(n) / float64(p.Operations)})
		}
	}
	return load
}
