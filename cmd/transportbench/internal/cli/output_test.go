package cli_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// traced is a run that records a transfer.
func traced(ctx context.Context, req runner.Request, obs runner.Observer) (*result.Result, error) {
	req.Trace([]record.ThreadTrace{{Transfers: []transport.Transfer{{Size: 1}}}})
	return clitest.Succeed(ctx, req, obs)
}

// outputs has the commands that write a file which the user names, and the beginning of each file.
var outputs = map[string]struct {
	args  []string // the path follows
	flag  string
	begin string
}{
	"report": {[]string{"report", "SET", "-o"}, "--output", "<!DOCTYPE html>"},
	"export": {[]string{"export", "SET", "-o"}, "--output", "transport,"},
	"diff": {[]string{"diff", "SET", "SLOW", "--format", "github", "--comment"}, "--comment",
		"### transportbench"},
	"trace": {[]string{"run", "--transport", "tcpx", "--trace"}, "--trace", `{"displayTimeUnit"`},
}

// eachOutput calls check for each of outputs, with a function that runs the command for a path.
func eachOutput(t *testing.T, check func(t *testing.T, c *clitest.Command, flag, begin string,
	run func(path string) int)) {
	old, slow := clitest.SetOf(t, nil, 1e6), clitest.SetOf(t, nil, 0.5e6)
	for name, o := range outputs {
		t.Run(name, func(t *testing.T) {
			c := &clitest.Command{T: t, Run: traced, Plugins: []string{"tcpx"}}
			check(t, c, o.flag, o.begin, func(path string) int {
				args := strings.Split(strings.NewReplacer("SET", old, "SLOW", slow).Replace(
					strings.Join(o.args, "\n")), "\n")
				code := c.Execute(append(args, path)...)
				if code == app.ExitRegression {
					code = app.ExitOK // it has written the comment
				}
				return code
			})
		})
	}
}

func TestOutputsFollowLinksAndKeepModes(t *testing.T) {
	eachOutput(t, func(t *testing.T, c *clitest.Command, _, begin string, run func(string) int) {
		dir := t.TempDir()
		target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
		require.NoError(t, os.WriteFile(target, []byte("old"), 0o600))
		require.NoError(t, os.Symlink("target", link))
		require.Zero(t, run(link), c.Stderr)
		info, err := os.Lstat(link)
		require.NoError(t, err)
		require.Equal(t, fs.ModeSymlink, info.Mode().Type())
		info, err = os.Lstat(target)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), begin), "%.100s", text)
	})
}

func TestOutputsIntoPipes(t *testing.T) {
	eachOutput(t, func(t *testing.T, c *clitest.Command, _, begin string, run func(string) int) {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		got := make(chan string)
		go func() {
			text, err := os.ReadFile(path)
			if err != nil {
				text = []byte(err.Error())
			}
			got <- string(text)
		}()
		require.Zero(t, run(path), c.Stderr)
		text := <-got
		require.True(t, strings.HasPrefix(text, begin), "%.100s", text)
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())

		// Without a reader, an interrupt ends the command.
		ctx, interrupt := context.WithCancel(context.Background())
		interrupt()
		c.Ctx = ctx
		require.Equal(t, app.ExitInterrupted, run(path), c.Stderr)
	})
}

func TestOutputsOntoADevice(t *testing.T) {
	full := filepath.Join(t.TempDir(), "full")
	if err := unix.Mknod(full, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))); err != nil {
		t.Skipf("making a device: %v", err)
	}
	if f, err := os.OpenFile(full, os.O_WRONLY, 0); err != nil {
		t.Skipf("opening a device that the test has made (a nodev mount?): %v", err)
	} else {
		f.Close()
	}
	eachOutput(t, func(t *testing.T, c *clitest.Command, flag, _ string, run func(string) int) {
		require.Equal(t, app.ExitUsage, run(full), c.Stderr)
		require.Contains(t, c.Stderr, "transportbench: "+flag+": write "+full+
			": no space left on device; free some space\n")
		info, err := os.Lstat(full)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDevice|fs.ModeCharDevice, info.Mode().Type())
		entries, err := os.ReadDir(filepath.Dir(full))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

func TestOutputsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=8k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 8<<10), 0o600))
	eachOutput(t, func(t *testing.T, c *clitest.Command, flag, _ string, run func(string) int) {
		require.Equal(t, app.ExitUsage, run(path), c.Stderr)
		require.Contains(t, c.Stderr, "transportbench: "+flag+": write "+path+
			": no space left on device; free some space\n")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, make([]byte, 8<<10), text)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	})
}

// A directory of exported files follows the same rules.
func TestExportedDirectories(t *testing.T) {
	const name = "service-time.hlog"
	source, dir := clitest.CommittedCell(t, "shm"), t.TempDir()
	require.NoError(t, os.Symlink("target", filepath.Join(dir, name)))
	c := &clitest.Command{T: t}
	require.Zero(t, c.Execute("export", "--format", "hdr", source, "-o", dir+"/"), c.Stderr)
	require.FileExists(t, filepath.Join(dir, "target"))
	require.NoError(t, os.Remove(filepath.Join(dir, "target")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "target"), 0o700))
	require.Equal(t, app.ExitUsage, c.Execute("export", "--format", "hdr", source, "-o", dir+"/"),
		c.Stderr)
	require.Contains(t, c.Stderr, "transportbench: --output: write "+filepath.Join(dir, name)+
		": is a directory\n")
}

// A histogram that cannot be decoded is an error of the input, wherever the export goes.
func TestExportOfABrokenHistogram(t *testing.T) {
	d, err := result.Read(clitest.CommittedCell(t, "shm"))
	require.NoError(t, err)
	d.Repeats[1].Latency = "HISTFAAA!"
	broken := filepath.Join(t.TempDir(), "broken.json")
	f, err := os.Create(broken)
	require.NoError(t, err)
	require.NoError(t, result.Encode(f, d))
	require.NoError(t, f.Close())
	out := t.TempDir()
	for _, to := range [][]string{nil, {"-o", filepath.Join(out, "log")}, {"-o", out}} {
		c := &clitest.Command{T: t}
		require.Equal(t, app.ExitUsage,
			c.Execute(append([]string{"export", "--format", "hdr", broken}, to...)...), c.Stderr)
		require.Contains(t, c.Stderr, "transportbench: result "+d.ID+
			": repeat 1: decoding histogram: ")
		entries, err := os.ReadDir(out)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

// Standard output that cannot be written is no error of the input.
func TestExportToAFullStandardOutput(t *testing.T) {
	var stderr strings.Builder
	code := cli.Main([]string{"export", clitest.SetOf(t, nil, 1e6)}, fullWriter{}, &stderr)
	require.Equal(t, app.ExitInternal, code, stderr.String())
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, unix.ENOSPC }
