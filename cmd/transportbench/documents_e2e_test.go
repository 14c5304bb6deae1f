package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/cli"
)

// repository is this repository's directory.
const repository = "../.."

// A shellBlock is a block of shell commands in a document. A comment before it may say why it is
// not run.
var shellBlock = regexp.MustCompile("(?s)(?:<!-- not run: ([^>]+) -->\n)?```sh\n(.*?)```\n")

// tiny makes the commands that measure take a moment. It changes nothing else of a command, with
// two exceptions: serve takes a free port and is interrupted, and calibrate and reproduce are dry
// runs.
var tiny = map[string]string{
	"run":   "--duration 50ms --warmup 20ms --repeats 1",
	"bench": "--duration 50ms --warmup 20ms --repeats 1",
	"sweep": "--duration 50ms --warmup 20ms --repeats 1",
	"ab":    "--duration 50ms --warmup 20ms --repeats 1 --max-repeats 1",
	"stack": "--duration 50ms --warmup 20ms --repeats 1",
	"micro": "--duration 20ms", "serve": "--port 0", "calibrate": "--dry-run",
	"reproduce": "--dry-run",
}

// codes are the exit codes that a command may have besides 0, because windows are tiny, their
// repeats are few, and the machine may be busy: a failed check, or too little data.
var codes = map[string][]int{
	"run": {4}, "bench": {4}, "sweep": {4}, "ab": {3, 4, 6}, "diff": {3, 4, 6}, "analyze": {4, 6},
}

// special matches commands that need what a machine may not have, or other hosts. Without it they
// exit with 1, or 2 for an option, and one line says why.
var special = regexp.MustCompile(
	`mode=gpu|mode=devmem|network=vsock|engine=uring|domain=|lane=|--hosts |--paths |` +
		`agent --join |^transportbench c2c `)

// native matches commands with transports that need a native library. make build makes their
// plugins.
var native = regexp.MustCompile(`\b(grpc|ofi|ucxam)\b`)

// calibrated matches commands that need a calibration, or sets of hours, which take too long here.
var calibrated = regexp.MustCompile(`calibrate (show|pairs)`)

// TestDocumentedCommands runs the commands of the README, the documents and the help, in order and
// in one directory.
func TestDocumentedCommands(t *testing.T) {
	inLongTests(t)
	d := &documents{dir: workplace(t), seen: map[string]bool{}}
	// A result of a second transport, to compare with.
	d.run(t, "preparation", "transportbench run --transport sockets --in-flight 32\n")
	pages := []string{filepath.Join(repository, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/transports/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			if block[1] == "" {
				d.run(t, strings.TrimPrefix(page, repository+"/"), block[2])
			}
		}
	}
	require.Greater(t, len(d.seen), 40)
	d.runExamples(t, cli.Command())
}

// documents runs the commands of documents.
type documents struct {
	dir  string
	seen map[string]bool // lines that were run
}

// runExamples runs the examples in the help of a command and of those below it.
func (d *documents) runExamples(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	d.run(t, cmd.CommandPath()+" --help", cmd.Example)
	for _, sub := range cmd.Commands() {
		d.runExamples(t, sub)
	}
}

// workplace makes a directory like that of a user who has cloned and built the repository, and has
// what the documents suppose: two builds, two sets of results and a sweep. Of transports it has the
// fastest to start; commands that name others find them, too.
func workplace(t *testing.T) string {
	dir := t.TempDir()
	for target, source := range map[string]string{
		"bin/transportbench":                "transportbench",
		"bin/plugins/transport-shm":         "plugins/transport-shm",
		"bin/plugins/transport-calibration": "plugins/transport-calibration",
		"OLD/transport-shm":                 "plugins/transport-shm",
		"NEW/transport-shm":                 "plugins/transport-shm",
		"OLD/bin/plugins/transport-shm":     "plugins/transport-shm",
	} {
		require.NoError(t, link(filepath.Join(bin, source), filepath.Join(dir, target)))
	}
	results, err := filepath.Abs(filepath.Join(repository, "results"))
	require.NoError(t, err)
	entries, err := os.ReadDir(results)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "results"), 0o755))
	for _, e := range entries {
		if e.Name() != "local" {
			require.NoError(t, os.Symlink(filepath.Join(results, e.Name()),
				filepath.Join(dir, "results", e.Name())))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "matrix.yaml"),
		[]byte("base: {profile: kv}\naxes: {in-flight: [1, 2]}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "requests.csv.gz"), compressed(t,
		"time,op,key,size\n0.000018,read,user:17,320\n0.000043,write,cart:4,1200\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "conversation_trace.jsonl"), []byte(
		`{"timestamp": 0, "input_length": 1024, "output_length": 52, "hash_ids": [1, 2]}`+"\n"),
		0o600))
	// The plugins of an older revision, as if they had been built before.
	older := filepath.Join(dir, "scripts/old-plugins.sh")
	require.NoError(t, os.MkdirAll(filepath.Dir(older), 0o755))
	require.NoError(t, os.WriteFile(older, []byte("#!/bin/sh\necho OLD\n"), 0o755))
	// What comes of commands that are not run here.
	for name, source := range map[string]string{
		"old": "results/v0.2.0/amd-epyc-2core-vm", "new": "results/v0.2.0/amd-epyc-2core-vm",
		"baseline":    "results/v0.2.0/amd-epyc-2core-vm",
		"results/new": "results/v0.2.0/amd-epyc-2core-vm",
	} {
		require.NoError(t, os.Symlink(filepath.Join(dir, source), filepath.Join(dir, name)))
	}
	// A night of a history, which is written to.
	require.NoError(t, os.CopyFS(filepath.Join(dir, "nightly/2026-11-22"),
		os.DirFS(filepath.Join(results, "v0.6.0/amd-epyc-2core-vm"))))
	return dir
}

// compressed returns text as gzip has it.
func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// called matches the lines that call the command.
var called = regexp.MustCompile(`^transportbench (\w+)`)

// run runs the lines of a block that call the command, each once.
func (d *documents) run(t *testing.T, page, block string) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "bin/"), " # ")
		line = strings.Join(strings.Fields(line), " ")
		m := called.FindStringSubmatch(line)
		if m == nil || d.seen[line] || calibrated.MatchString(line) {
			continue
		}
		d.seen[line] = true
		if name := native.FindString(line); name != "" {
			if _, err := os.Stat(filepath.Join(repository, "bin/plugins/transport-"+
				name)); err != nil {
				t.Logf("not run, because make build has not built transport %s: %s", name, line)
				continue
			}
		}
		began := time.Now()
		code, output := d.runLine(t, m[1],
			strings.Replace(line, m[0], strings.TrimSpace(m[0]+" "+tiny[m[1]]), 1))
		t.Logf("%4d ms  exit %d  %s: %s", time.Since(began).Milliseconds(), code, page, line)
		switch {
		case code == 0 || slices.Contains(codes[m[1]], code):
		case (code == 1 || code == 2) && special.MatchString(line):
			require.Regexp(t, `(?m)^transportbench: .`, output)
		default:
			t.Errorf("exit code %d of %s: %s\n%s", code, page, line, output)
		}
	}
}

// runLine runs a line of shell in dir and returns its exit code and output.
func (d *documents) runLine(t *testing.T, name, line string) (int, string) {
	t.Helper()
	line = regexp.MustCompile(`--repeats \d+`).ReplaceAllString(line, "--repeats 1")
	line = regexp.MustCompile(`--duration \d+s`).ReplaceAllString(line, "--duration 50ms")
	if _, err := exec.LookPath("jq"); err != nil {
		line, _, _ = strings.Cut(line, "| jq")
	}
	// The page names a result by an example of a name.
	if found, _ := filepath.Glob(filepath.Join(d.dir, "results/local/shm-kv-*.json")); len(found) >
		0 {
		line = regexp.MustCompile(`results/local/shm-kv-[0-9A-Za-z-]+\.json`).ReplaceAllString(line,
			found[0])
		line = regexp.MustCompile(`\b(old|new)\.json`).ReplaceAllString(line, found[0])
	}
	cmd := exec.Command("bash", "-o", "pipefail", "-c", line)
	cmd.Dir = d.dir
	tmp := shortTempDir(t)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"),
		"TMPDIR="+tmp,
		"XDG_CONFIG_HOME="+tmp, "XDG_STATE_HOME="+tmp)
	if regexp.MustCompile(`--transport [^a]|plugins show|micro|reproduce|transport=`).MatchString(
		line) {
		built, err := filepath.Abs(filepath.Join(repository, "bin/plugins"))
		require.NoError(t, err)
		cmd.Env = append(cmd.Env, "TRANSPORTBENCH_PLUGIN_PATH="+filepath.Join(bin, "plugins")+
			":"+built)
	}
	if name == "serve" {
		return interrupted(t, cmd)
	}
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(output)
}

// interrupted runs a command until it prints an address, and interrupts it.
func interrupted(t *testing.T, cmd *exec.Cmd) (int, string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	output := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		output += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "http://") {
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 && code != 0 && code != -1 {
		return code, output
	}
	require.Contains(t, output, "http://", fmt.Sprint(cmd.Args))
	return 0, output
}
