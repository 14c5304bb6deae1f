package experiment

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// sweepUntilKilled is a sweep in another process. It prints a line for each repeat once that is
// stored, which is when the next one begins.
func sweepUntilKilled(dir string) int {
	spec, err := ParseSpec("s.yaml", []byte(killedMatrix))
	if err == nil {
		var p *Plan
		if p, err = Expand(spec, known); err == nil {
			_, err = runSweep(context.Background(), p, options{
				Dir: dir, Resume: HasSweep(dir), Measure: good, Watcher: &teller{},
			})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("complete")
	return 0
}

const killedMatrix = "repeats: 6\naxes: {transport: [shm, erpc], in-flight: [1, 2, 3, 4, 5, 6, " +
	"7, 8]}\n"

type teller struct {
	io.Writer
	last string
}

func (w *teller) Begin(s Status) runner.Observer {
	if w.last != "" {
		fmt.Println(w.last)
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
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SWEEP_TEST_DIR="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		// Some die while they start, others while they write.
		delay := time.Duration(r.IntN(60)) * time.Millisecond
		timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		complete := false
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if complete = lines.Text() == "complete"; !complete {
				require.False(t, stored[lines.Text()], "%s was measured again", lines.Text())
				stored[lines.Text()] = true
			}
		}
		timer.Stop()
		var exit *exec.ExitError
		if err = cmd.Wait(); err != nil {
			require.ErrorAs(t, err, &exit)
			require.False(t, exit.Exited(), "it failed by itself")
			kills++
		}
		if complete { // it may also have been killed after it reported completion
			dir, stored = t.TempDir(), map[string]bool{} // start a new sweep
			continue
		}
		require.Error(t, err, "it ended and did not say that it was complete")
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
