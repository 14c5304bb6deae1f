package result

import (
	"io"
	"runtime/debug"
	"time"

	"transportbench/core/base/files"
)

// Growing is the file of a result while its run goes on. It is replaced by the result of all
// repeats so far as each is complete, so that a run that is killed leaves what it has measured, as
// a result that any reader knows. The zero value with a directory is ready to use.
//
// Repeats are not appended, because a result has medians, intervals and checks of all of them. To
// write a large result again for each repeat would take ever longer: from [everyRepeat] repeats on,
// storing takes at most [storingShare] of the time.
type Growing struct {
	Dir string

	path, id string // once it is stored
	stored   time.Time
	took     time.Duration // for each repeat, the last time
}

const (
	everyRepeat  = 100
	storingShare = 1.0 / 20
)

// Keep stores what soFar returns, the result of that many repeats, if it is time to.
func (g *Growing) Keep(repeats int, soFar func() (*Result, error)) error {
	began := time.Now()
	if repeats > everyRepeat && storingShare*float64(began.Sub(g.stored)) <
		float64(repeats)*float64(g.took) {
		return nil
	}
	r, err := soFar()
	if err == nil {
		_, err = g.Store(r)
	}
	debug.FreeOSMemory() // the text of a large result is several times what is kept of it
	g.stored = time.Now()
	g.took = g.stored.Sub(began) / time.Duration(repeats)
	return err
}

// Store stores r, in place of what Keep has stored and with its ID, and returns the file's path. It
// is as durable as [Write]. Errors are an [*IOError].
func (g *Growing) Store(r *Result) (path string, err error) {
	if g.path == "" {
		g.path, err = Write(g.Dir, r)
		g.id = r.ID
		return g.path, err
	}
	r.ID = g.id
	if err := files.Replace(g.path, func(w io.Writer) error { return Encode(w, r) }); err != nil {
		return "", &IOError{"writing the result", g.path, err}
	}
	return g.path, nil
}
