package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/viper"
	"github.com/stretchr/testify/require"
)

// workflow is what the test runs of the workflow in docs/ci.md.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			Name string
			Run  string
			Env  map[string]string
		}
	}
}

// step returns the script of a step of the workflow.
func (w *workflow) step(t *testing.T, name string) string {
	t.Helper()
	for _, s := range w.Jobs["compare"].Steps {
		if s.Name == name {
			require.NotEmpty(t, s.Run)
			return s.Run
		}
	}
	t.Fatalf("the workflow has no step %q", name)
	return ""
}

func readWorkflow(t *testing.T) *workflow {
	t.Helper()
	page, err := os.ReadFile("../../docs/ci.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "```yaml\nname: ")
	require.True(t, found)
	text, _, _ = strings.Cut("name: "+text, "```\n")
	v := viper.New()
	v.SetConfigType("yaml")
	require.NoError(t, v.ReadConfig(strings.NewReader(text)))
	w := new(workflow)
	require.NoError(t, v.Unmarshal(w))
	return w
}

// slowShm builds the plugin of shm with a worker that waits at every poll.
func slowShm(t *testing.T, dir string) {
	t.Helper()
	source, err := filepath.Abs("../../core/fabric/shm/inbox/worker_datapath.go")
	require.NoError(t, err)
	text, err := os.ReadFile(source)
	require.NoError(t, err)
	const poll = "func (w *worker) Poll(events []transport.Event) (int, error) {\n"
	require.Equal(t, 1, strings.Count(string(text), poll))
	slow := filepath.Join(t.TempDir(), "slow.go")
	wait := poll + "\tfor began := time.Now(); time.Since(began) < 100*time.Microsecond; {\n\t}\n"
	require.NoError(t, os.WriteFile(slow, []byte(strings.Replace(string(text), poll, wait, 1)),
		0o600))
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: slow}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-overlay", overlay, "-o",
		filepath.Join(dir, "transport-shm"), "transportbench/cmd/transports-libc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
}

// gh stands in for GitHub's command. It keeps the comment in a file.
const gh = `#!/bin/bash
set -eu
case "$*" in
	*PATCH*comments/7*@comment.md | *POST*issues/42/comments*@comment.md) cp comment.md posted.md ;;
	*DELETE*comments/7*) rm posted.md ;;
	*--paginate*issues/42/comments*) if [ -e posted.md ]; then echo 7; fi ;;
	*) echo "gh: $*" >&2 && exit 1 ;;
esac
`

// TestWorkflow runs the scripts of the workflow in docs/ci.md: a slower build is commented on, and
// the comment goes away when both builds are equal.
func TestWorkflow(t *testing.T) {
	w := readWorkflow(t)
	dir := shortTempDir(t)
	for _, d := range []string{"new/bin", "old/bin", "programs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(bin, "transportbench"),
		filepath.Join(dir, "new/bin/transportbench")))
	require.NoError(t, os.Symlink(filepath.Join(bin, "plugins"),
		filepath.Join(dir, "old/bin/plugins")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "programs/gh"), []byte(gh), 0o755))
	slowShm(t, filepath.Join(dir, "slow"))
	run := func(step string, env ...string) (code int, output string) {
		script := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c",
			w.step(t, step))
		script.Dir = dir
		script.Env = append(os.Environ(),
			"GITHUB_STEP_SUMMARY=step-summary.md", "GITHUB_OUTPUT=output",
			"GITHUB_REPOSITORY=owner/name", "PULL_REQUEST=42",
			"PATH="+filepath.Join(dir, "programs")+":"+os.Getenv("PATH"), "TMPDIR="+dir,
			"XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir)
		script.Env = append(script.Env, env...)
		out, _ := script.CombinedOutput()
		return script.ProcessState.ExitCode(), string(out)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	for _, build := range []struct {
		plugins string
		// two processors are not quiet: a slow build is found easily, and equal ones hardly ever
		// differ
		limits   string
		code     int
		headline string
	}{
		{"slow", "--floor 2% --alpha 0.3", 3, "### transportbench: 1 of 1 comparison WORSE\n"},
		{"old/bin/plugins", "--floor 50% --alpha 0.01", 0,
			"### transportbench: no change found in 1 comparison ("},
	} {
		for _, file := range []string{"output", "step-summary.md", "new/bin/plugins", "results"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, file)))
		}
		require.NoError(t, os.Symlink(filepath.Join(dir, build.plugins),
			filepath.Join(dir, "new/bin/plugins")))
		code, output := run("Compare", "LOAD=--transport shm --profile echo --duration 50ms "+
			"--warmup 5ms --repeats 5 --max-repeats 5 --metric throughput "+build.limits)
		require.Zero(t, code, output)
		// the machine's state changed, which leaves too little to test
		if read("output") == "code=6\n" && build.code == 0 {
			build.code = 6
		}
		require.Equal(t, fmt.Sprintf("code=%d\n", build.code), read("output"), output)
		require.True(t, strings.HasPrefix(read("step-summary.md"), build.headline),
			read("step-summary.md"))
		require.Contains(t, read("step-summary.md"), "\n- new: B plugin-dir=")
		code, output = run("Comment")
		require.Zero(t, code, output)
		if build.code != 3 {
			require.Empty(t, read("comment.md"))
			require.NoFileExists(t, filepath.Join(dir, "posted.md"))
		} else {
			require.Equal(t, read("step-summary.md"), read("posted.md"))
			require.NoError(t, os.Remove(filepath.Join(dir, "comment.md")))
			code, output = run("Comment")
			require.Zero(t, code, output)
			require.FileExists(t, filepath.Join(dir, "posted.md"),
				"a comparison that failed says nothing of the change")
			require.Regexp(t, `\| shm \| throughput \| [^|]* \| -\d+\.\d%`,
				read("posted.md"))
		}
		code, _ = run("Verdict", fmt.Sprintf("CODE=%d", build.code))
		require.Equal(t, build.code, code)
	}
}
