package docs_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// goBlock is a Go code block of the guide with the mark of its file.
var goBlock = regexp.MustCompile("(?s)<!-- excerpt ([^ ]+) -->\n```go\n(.*?)```\n")

// TestExcerpts compares the guide's code with the files of the example.
func TestExcerpts(t *testing.T) {
	guide, err := os.ReadFile("write-a-transport.md")
	require.NoError(t, err)
	blocks := goBlock.FindAllStringSubmatch(string(guide), -1)
	require.Len(t, blocks, strings.Count(string(guide), "```go\n"),
		"a Go block without a mark or an end")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		file, excerpt := block[1], block[2]
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		// Compare whole lines.
		require.True(t, strings.Contains("\n"+string(source), "\n"+excerpt),
			"%s has no such lines:\n%s", file, excerpt)
	}
}

// command runs a program in dir and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	stdout, stderr, err := try(t, dir, name, args...)
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), stdout, stderr)
	return stdout
}

func try(t *testing.T, dir, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	// The path of a control socket must be short.
	tmp, err := os.MkdirTemp("/tmp", "tb")
	require.NoError(t, err)
	defer os.RemoveAll(tmp)
	var out, complaints bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaints
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "TMPDIR="+tmp,
		"XDG_CONFIG_HOME="+tmp)
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

// noteFiles stats the files that child processes read, so that go test does not use a cached result
// after one of them has changed.
func noteFiles(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			return err
		}))
	}
}

// TestExample follows the instructions of the guide in a module outside this repository, made from
// a copy of the example.
func TestExample(t *testing.T) {
	noteFiles(t, "example", "../core", "../cmd/transportbench")
	bin := t.TempDir()
	example := filepath.Join(bin, "module")
	require.NoError(t, os.CopyFS(example, os.DirFS("example")))
	repository, err := filepath.Abs("..")
	require.NoError(t, err)
	guide, err := os.ReadFile("write-a-transport.md")
	require.NoError(t, err)
	command(t, example, "go", "mod", "edit", "-droprequire=transportbench",
		"-dropreplace=transportbench")
	edits := regexp.MustCompile(`(?m)^go mod edit .*$`).FindAllString(string(guide), -1)
	require.Len(t, edits, 2)
	for _, edit := range edits {
		words := strings.Fields(strings.Replace(edit, "/path/of/transportbench", repository, 1))
		command(t, example, words[0], words[1:]...)
	}
	transportbench := filepath.Join(bin, "transportbench")
	plugins := filepath.Join(bin, "elsewhere")

	_, complaint, err := try(t, example, "go", "build", "-buildvcs=false", "-o",
		filepath.Join(plugins, "transport-framed"), ".")
	require.NoError(t, err, "%s\nif go.mod is out of date: cd docs/example && go mod tidy",
		complaint)
	require.Empty(t, command(t, example, "gofmt", "-l", "."), "not formatted")
	command(t, example, "go", "vet", "./...")
	command(t, example, "go", "test", "./...")
	command(t, "..", "go", "build", "-buildvcs=false", "-o", transportbench, "./cmd/transportbench")

	require.Contains(t, command(t, bin, transportbench, "plugins", "list", "--plugin-dir", plugins),
		"framed")
	require.Contains(t, command(t, bin, transportbench, "plugins", "show", "framed",
		"--plugin-dir", plugins), "connect-timeout")
	t.Setenv("TRANSPORTBENCH_PLUGIN_PATH", plugins)
	var list json.RawMessage
	require.NoError(t,
		json.Unmarshal([]byte(command(t, bin, transportbench, "plugins", "list", "--json")), &list))
	require.Contains(t, string(list), `"framed"`)

	run := []string{"run", "--transport", "framed", "--set", "timeout=4s",
		"--in-flight", "4", "--duration", "500ms", "--repeats", "2", "--json",
		"--out", filepath.Join(bin, "results")}
	r, err := result.Parse([]byte(command(t, bin, transportbench, run...)))
	require.NoError(t, err)
	require.Equal(t, "framed", r.Plugin.Name)
	require.Equal(t, "4s", r.Config.Options["timeout"])
	require.Len(t, r.Repeats, 2)
	require.False(t, r.Incomplete)
	for _, metric := range []string{result.Throughput, result.LatencyP50, result.Floor,
		result.RateFloor, result.OpTimeRatio} {
		require.Positive(t, r.Summary[metric].Median, metric)
	}
	require.Equal(t, "raw TCP ping-pong", r.Repeats[0].Before.Medium.Name)
	passed := map[string]bool{}
	for _, check := range r.Checks {
		require.True(t, check.OK || check.Severity != result.Error, check.Message)
		passed[check.Name] = check.OK
	}
	require.True(t, passed["verified"], "no check says that the responses were verified")
	require.True(t, passed["path"], "no check compared the path with the kernel's counters")

	// Against a transport of the repository, in turns. The plugins are in two directories.
	command(t, "..", "go", "build", "-buildvcs=false", "-o",
		filepath.Join(bin, "plugins", "transport-shm"), "./cmd/transports-libc")
	ab := command(t, bin, transportbench, "ab", "--a", "transport=framed", "--b", "transport=shm",
		"--profile", "pingpong",
		"--duration", "50ms", "--warmup", "50ms", "--repeats", "6", "--max-repeats", "6", "--out",
		filepath.Join(bin, "ab"))
	require.Regexp(t, `(?m)^framed -> shm +throughput +`, ab)

	_, complaint, err = try(t, bin, transportbench, append(run, "--value-size", "1GiB")...)
	require.Error(t, err)
	require.Contains(t, complaint, "transport framed takes")
	_, complaint, err = try(t, bin, transportbench, append(run, "--set", "address1=::1")...)
	require.Error(t, err)
	require.Contains(t, complaint, `did you mean "address"?`)
}
