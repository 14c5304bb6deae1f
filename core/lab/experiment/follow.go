package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"transportbench/core/base/files"
	"transportbench/core/lab/store/set"
)

// Follower tells from its files how far a sweep is, without disturbing it.
type Follower struct {
	store *store // without a lock
	began time.Time
}

// Follow returns a follower of the sweep in a directory, or nil if there is none yet.
func Follow(dir string) (*Follower, error) {
	path := filepath.Join(dir, planName)
	begun, err := readPlan(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("following the sweep: %w", err)
	}
	if begun.Plan == nil {
		return nil, fmt.Errorf("following the sweep: %s is no plan", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("following the sweep: %w", err)
	}
	return &Follower{&store{dir: dir, plan: begun.Plan}, info.ModTime()}, nil
}

// Progress is how far a sweep is.
type Progress struct {
	// Done and Planned count the windows of all cells that can be measured here.
	Done    int `json:"done"`
	Planned int `json:"planned"`
	// Ended means that the sweep has written its index: it is complete, or was interrupted, or its
	// other cells failed.
	Ended bool `json:"ended"`
	// LeftS is the time left in seconds, at the pace since the sweep began; 0 if that is not known.
	LeftS float64 `json:"left_s"`
}

// ProgressOf returns a function that follows the sweep in a directory and returns its progress as
// JSON, or "" while there is none.
func ProgressOf() func(dir string) string {
	var f *Follower
	return func(dir string) string {
		if f == nil {
			f, _ = Follow(dir) // a file, or a plan that is being written
		}
		if f == nil {
			return ""
		}
		text, err := json.Marshal(f.Progress(time.Now()))
		if err != nil {
			panic(err) // numbers only
		}
		return string(text)
	}
}

// Progress returns how far the sweep is at a time.
func (f *Follower) Progress(now time.Time) Progress {
	var p Progress
	s := f.store
	for i := range s.plan.Cells {
		if s.plan.Cells[i].Unavailable != "" {
			continue
		}
		p.Planned += s.plan.Repeats
		if _, err := os.Stat(files.Packed(s.cellPath(i))); err == nil {
			p.Done += s.plan.Repeats
			continue
		}
		entries, _ := os.ReadDir(s.repeatDir(i)) // none before the first repeat, nor after the last
		for _, entry := range entries {
			if name := entry.Name(); strings.HasSuffix(name, ".json") &&
				!strings.HasPrefix(name, ".") {
				p.Done++
			}
		}
	}
	_, err := os.Stat(files.Packed(filepath.Join(s.dir, set.IndexName)))
	p.Ended = err == nil
	if spent := now.Sub(f.began); !p.Ended && p.Done > 0 && spent > 0 {
		p.LeftS = (spent / time.Duration(p.Done) * time.Duration(p.Planned-p.Done)).Round(
			time.Second).Seconds()
	}
	return p
}
