package experiment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// sweepUntilKilled is a sweep in another process. It sends the name of each repeat once that is
// stored, which is when the next one begins.
func sweepUntilKilled(parent *fabrictest.Parent) error {
	var dir string
	if err := parent.Config(&dir); err != nil {
		return err
	}
	spec, err := ParseSpec("s.yaml", []byte(killedMatrix))
	if err != nil {
		return err
	}
	p, err := Expand(spec, known)
	if err != nil {
		return err
	}
	if _, err = runSweep(context.Background(), p, options{
		Dir: dir, Resume: HasSweep(dir), Measure: good, Watcher: &teller{parent: parent},
	}); err != nil {
		return err
	}
	return parent.Send("complete")
}

const killedMatrix = "repeats: 6\naxes: {transport: [shm, erpc], in-flight: [1, 2, 3, 4, 5, 6, " +
	"7, 8]}\n"

type teller struct {
	io.Writer
	parent *fabrictest.Parent
	last   string
}

func (w *teller) Begin(s Status) runner.Observer {
	if w.last != "" {
		_ = w.parent.Send(w.last)
	}
	w.last = fmt.Sprintf("%s/%d", s.Label, s.Repeat)
	return nil
}

func (*teller) Cell(Status, *set.Cell)       {}
func (*teller) Again(Status, string, string) {}

// Whenever the process is killed, stored repeats are complete and are not measured again, and the
// sweep can be resumed.
func TestKilledAtAnyMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	stored := map[string]bool{}
	kills := 0
	for kills < 50 {
		child := fabrictest.Start(t, "sweep", dir)
		// Some die while they start, others while they write.
		delay := time.Duration(r.IntN(60)) * time.Millisecond
		timer := time.AfterFunc(delay, func() { _ = unix.Kill(child.PID, unix.SIGKILL) })
		complete := false
		for name := ""; !complete && child.Read(&name) == nil; {
			if complete = name == "complete"; !complete {
				require.False(t, stored[name], "%s was measured again", name)
				stored[name] = true
			}
		}
		timer.Stop()
		if complete {
			dir, stored = t.TempDir(), map[string]bool{} // start a new sweep
			continue
		}
		require.Equal(t, -1, child.Kill(), "it ended by itself and was not complete")
		kills++
		requireReadable(t, dir)
	}
	outcome, err := runSweep(t.Context(), plan(t, killedMatrix),
		options{Dir: dir, Resume: HasSweep(dir), Measure: good, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Equal(t, 16, outcome.Complete)
}

// requireReadable reads every complete file.
func requireReadable(t *testing.T, dir string) {
	t.Helper()
	if !HasSweep(dir) {
		return
	}
	for _, pattern := range []string{"cells/*.json", "repeats/*/*.json"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			_, err := result.Read(path)
			require.NoError(t, err)
		}
	}
}
