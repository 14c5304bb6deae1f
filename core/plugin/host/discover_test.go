package host

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestDirs(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	beside := filepath.Dir(executable)
	always := []string{filepath.Join(beside, "plugins"), beside,
		filepath.Join(beside, "../lib/transportbench/plugins")}
	explicit := t.TempDir()

	t.Setenv(EnvPluginPath, "")
	dirs, err := Dirs("")
	require.NoError(t, err)
	require.Equal(t, always, dirs)

	t.Setenv(EnvPluginPath, "/one::/two/")
	dirs, err = Dirs(explicit)
	require.NoError(t, err)
	require.Equal(t, append([]string{explicit, "/one", "/two"}, always...), dirs)

	t.Setenv(EnvPluginPath, "relative")
	_, err = Dirs("")
	require.ErrorContains(t, err, `"relative" is not an absolute path`)
	var setup *SetupError
	require.ErrorAs(t, err, &setup)

	file := filepath.Join(explicit, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, why := range map[string]string{file: "permission denied",
		file + "/plugins": "not a directory"} {
		t.Setenv(EnvPluginPath, path)
		_, err = Dirs("")
		require.ErrorAs(t, err, &setup)
		require.ErrorContains(t, err, EnvPluginPath+": "+path+" cannot be read ("+why+")")
	}
	t.Setenv(EnvPluginPath, "")

	var wrong *config.Error
	_, err = Dirs(filepath.Join(explicit, "missing"))
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "plugin-dir", wrong.Option)
}

func TestDiscover(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	put := func(dir, name string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), mode))
	}
	put(first, "transport-shm", 0o755)
	put(second, "transport-shm", 0o755) // the first directory hides it
	put(second, "transport-erpc", 0o755)
	put(first, "transport-erpc", 0o644)    // described, it says that it is not executable
	put(first, "transport-Upper", 0o755)   // not a valid name
	put(first, "transport-shm.old", 0o755) // not a valid name either
	put(first, "transporter", 0o755)
	require.NoError(t, os.Mkdir(filepath.Join(first, "transport-dir"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(second, "transport-erpc"),
		filepath.Join(first, "transport-link")))
	require.NoError(t, os.Symlink("/nowhere", filepath.Join(first, "transport-broken")))
	require.NoError(t, unix.Mkfifo(filepath.Join(first, "transport-fifo"), 0o755))

	found := Discover([]string{"/does/not/exist", first, second})
	var paths []string
	for _, p := range found {
		paths = append(paths, p.Path)
	}
	require.Equal(t, []string{
		filepath.Join(first, "transport-broken"), filepath.Join(first, "transport-dir"),
		filepath.Join(first, "transport-erpc"),
		filepath.Join(first, "transport-fifo"),
		filepath.Join(first, "transport-link"), filepath.Join(first, "transport-shm"),
	}, paths)
	require.Empty(t, Discover(nil))
	for i, says := range []string{
		"/nowhere: no such file", "transport-dir is not a regular file",
		"transport-erpc is not executable: chmod +x it",
		"transport-fifo is not a regular file",
	} {
		_, err := found[i].Describe(context.Background())
		require.ErrorContains(t, err, says)
	}
	_, err := found[3].SHA256()
	require.ErrorContains(t, err, "transport-fifo is not a regular file")
}

func TestFind(t *testing.T) {
	dirs := plugins(t, "shm", "erpc")
	p, err := Find("erpc", dirs)
	require.NoError(t, err)
	require.Equal(t, "erpc", p.Name)
	for name, says := range map[string]string{
		"shn":              `did you mean "shm"?`,
		"somethingdistant": "there are erpc, shm",
		"../../bin/sh":     "there is no plugin",
		"":                 "there is no plugin",
	} {
		_, err := Find(name, dirs)
		var wrong *config.Error
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, "transport", wrong.Option)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, dirs[0])
	}
	_, err = Find("shm", []string{t.TempDir()})
	require.ErrorContains(t, err, "make build")
}

func TestDescribe(t *testing.T) {
	p := find(t, "fake")
	d, err := p.Describe(context.Background())
	require.NoError(t, err)
	require.Equal(t, fakeDriver{"fake"}.Info(), d.Info)
	require.Equal(t, core.RuntimeDigest(), d.RuntimeDigest)
	require.Equal(t, core.Version, d.Version)
	noChildren(t)
}

// A signal that hits `describe` says nothing about the plugin, so it is asked again.
func TestDescribeIsTriedAgain(t *testing.T) {
	for _, name := range []string{"shotonce", "stoppedonce"} {
		p := find(t, name)
		d, err := p.describeWithin(context.Background(), soon)
		require.NoError(t, err)
		require.Equal(t, name, d.Info.Name)
		require.FileExists(t, filepath.Join(filepath.Dir(p.Path), "once"), "the first one was hit")
		noChildren(t)
	}
}

// What the machine lacks is no failure of the plugin: with --transport all it is left out.
func TestMissingLibraryIsUnavailable(t *testing.T) {
	_, err := file(t, "x", "#!/bin/sh\necho \"$0: error while loading shared libraries: "+
		"libucp.so.0: cannot open shared object file: No such file or directory\" >&2\nexit 127\n").
		Describe(context.Background())
	require.EqualError(t, err, "plugin x: libucp.so.0 is missing: install libucx0")
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.False(t, undescribed(err))
}

func TestDescribeFails(t *testing.T) {
	for name, says := range map[string]string{
		"flood":    "is not a transportbench plugin: its `describe` printed more than 1 MiB",
		"quitter":  "is not a transportbench plugin",
		"failing":  "died: exit status 7: the license has expired",
		"crashing": "died: exit status 2: SIGSEGV: segmentation violation",
		"imposter": "call the file transport-somethingelse",
		"garbage":  "its `describe` was killed: no answer within 300ms",
		"silent":   "its `describe` was killed: no answer within 300ms",
		"deaf":     "its `describe` was killed: no answer within 300ms",
	} {
		t.Run(name, func(t *testing.T) {
			limit := describeTimeout
			if strings.Contains(says, "no answer") {
				limit = soon
			}
			_, err := find(t, name).describeWithin(context.Background(), limit)
			require.ErrorContains(t, err, says)
			require.Equal(t, strings.Contains(says, "no answer") || strings.Contains(says, "died"),
				undescribed(err))
			require.NotContains(t, err.Error(), "\n")
			noChildren(t)
		})
	}
}

// Describe and Launch return the same error for files that the kernel or the dynamic loader
// rejects.
func TestFilesThatDoNotRun(t *testing.T) {
	ls, err := os.ReadFile("/bin/ls")
	require.NoError(t, err)
	replaced := func(t *testing.T, old, with string) string {
		if len(old) != len(with) || !bytes.Contains(ls, []byte(old)) {
			t.Skipf("/bin/ls here does not mention %s", old)
		}
		return string(bytes.ReplaceAll(ls, []byte(old), []byte(with)))
	}
	for name, c := range map[string]struct {
		content func(*testing.T) string
		says    string
	}{
		"not a program": {
			func(*testing.T) string { return "\x7fELF and nothing else" },
			"is not a program for this machine"},
		"a script": {
			func(*testing.T) string { return "#!/bin/sh\necho hello\n" },
			"is not a transportbench plugin"},
		"no interpreter": {
			func(*testing.T) string { return "#!/nowhere/sh\n" },
			"the interpreter or dynamic loader of"},
		"no loader": {
			func(t *testing.T) string { return replaced(t, "/ld-linux", "/zz-linux") },
			"the interpreter or dynamic loader of"},
		"missing known library": {
			func(t *testing.T) string { return replaced(t, "libselinux.so.1", "libucp.so.99999") },
			"plugin x: libucp.so.99999 is missing: install libucx0"},
		"missing other library": {
			func(t *testing.T) string { return replaced(t, "libselinux.so.1", "libqwerty9.so.1") },
			"plugin x: libqwerty9.so.1 is missing: install its package"},
	} {
		t.Run(name, func(t *testing.T) {
			p := file(t, "x", c.content(t))
			_, err := p.Describe(context.Background())
			require.ErrorContains(t, err, c.says)
			_, err = p.Launch(context.Background(), LaunchOptions{})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
			noSockets(t)
			noChildren(t)
		})
	}
}

// A description that is JSON but impossible names the field, as does a microbenchmark.
func TestImpossibleDescriptions(t *testing.T) {
	for field, says := range map[string]string{
		"info.options[0].type":      `{"protocol_version":2,"info":{"name":"x","options":[{"name":"ring","type":"prose"}]}}`,
		"info.limits.peers":         `{"protocol_version":2,"info":{"name":"x","limits":{"peers":-1}}}`,
		"info.options.min":          `{"protocol_version":2,"info":{"name":"x","options":[{"name":"ring","type":"int","min":"none"}]}}`,
		"info.options[0].default":   `{"protocol_version":2,"info":{"name":"x","options":[{"name":"ring","type":"int","default":"many"}]}}`,
		"description":               `{"protocol_version":2,"info":{"name":"x"}} and more`,
		"info.matched":              `{"protocol_version":2,"info":{"name":"x","matched":{"ring":"b"}}}`,
		"info.limits.max_payload":   `{"protocol_version":2,"info":{"name":"x","limits":{"max_payload":-5}}}`,
		"info.providers[0]":         `{"protocol_version":2,"info":{"name":"x","providers":[""]}}`,
		"info.capabilities.ordered": `{"protocol_version":2,"info":{"name":"x","capabilities":{"ordered":"very"}}}`,
	} {
		t.Run(field, func(t *testing.T) {
			_, err := file(t, "x", "#!/bin/sh\necho '"+says+"'\n").Describe(context.Background())
			var invalid *record.InvalidError
			if field == "description" {
				require.ErrorIs(t, err, errNotAPlugin)
				return
			}
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, field, invalid.Field)
			require.ErrorContains(t, err, "plugin x: ")
		})
	}
	micro := file(t, "x", "#!/bin/sh\necho library\necho '{\"name\":\"read\",\"latency_ns\":-3}'\n")
	err := micro.Micro(context.Background(), record.MicroRequest{},
		func(record.MicroAnswer) error { return nil })
	var invalid *record.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "measurement.latency_ns", invalid.Field)
}

func TestMissingLibrary(t *testing.T) {
	for line, want := range map[string]string{
		"/x/transport-ucxam: error while loading shared libraries: libucp.so.0: cannot open " +
			"shared object file: No such file or directory": "libucp.so.0 is missing: install " +
			"libucx0",
		"x: error while loading shared libraries: libibverbs.so.1: file too short": "cannot load " +
			"libibverbs.so.1: file too short",
		"panic: error": "",
	} {
		require.Equal(t, want, missingLibrary(line))
	}
}

func TestChangedFileIsRefused(t *testing.T) {
	content := []byte("#!/bin/sh\nexit 0\n")
	p := file(t, "x", string(content))
	sum, err := p.SHA256()
	require.NoError(t, err)
	require.Len(t, sum, 64)
	require.NoError(t, os.WriteFile(p.Path, append(content, '#'), 0o755))
	_, err = p.Launch(context.Background(), LaunchOptions{})
	require.ErrorContains(t, err, "has changed since this command started")
	noSockets(t)
}

func TestWorldWritableFileIsRefused(t *testing.T) {
	p := file(t, "x", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(p.Path, 0o777))
	_, err := p.Launch(context.Background(), LaunchOptions{})
	require.ErrorContains(t, err, "chmod o-w "+p.Path)
	_, err = p.Describe(context.Background())
	require.ErrorContains(t, err, "chmod o-w "+p.Path)
}

func TestPluginEnvironment(t *testing.T) {
	got := pluginEnvironment([]string{
		"HOME=/root", "SHELL=/bin/sh", "UCX_TLS=tcp", "FI_PROVIDER=tcp", "HFI_BACKTRACE=1",
		"GOMAXPROCS=1", "GOGC=off", "LC_ALL=C", "EDITOR=vi", "GODEBUG=gctrace=1",
	})
	require.Equal(t, []string{"HOME=/root", "UCX_TLS=tcp", "FI_PROVIDER=tcp", "LC_ALL=C",
		"HFI_BACKTRACE=0", "IPATH_NO_BACKTRACE=1", "GODEBUG=asyncpreemptoff=1,gctrace=1"}, got)
	require.Equal(t, []string{"HFI_BACKTRACE=0", "IPATH_NO_BACKTRACE=1",
		"GODEBUG=asyncpreemptoff=1"}, pluginEnvironment(nil))
}

func TestTail(t *testing.T) {
	write := func(chunks ...string) *tail {
		out := &tail{}
		for _, c := range chunks {
			n, err := out.Write([]byte(c))
			require.NoError(t, err)
			require.Equal(t, len(c), n)
		}
		return out
	}
	require.Empty(t, write().reason())
	require.Equal(t, []string{"one", "two"}, write("on", "e\n\ntw", "o").all())
	require.Equal(t, "panic: x", write("panic: x\n\ngoroutine 1\n", "main.main()\n").reason())
	require.Equal(t, "careful: no", write(`{"@level":"error","@message":"careful","error":"no"}`+
		"\n").reason())
	require.Equal(t, `{"other":1}`, write(`{"other":1}`+"\n").reason())

	long := write("panic: early\n")
	for range 10 * tailLines {
		_, _ = long.Write(append(bytes.Repeat([]byte("x"), 10*tailLineMax), '\n'))
	}
	require.Len(t, long.all(), tailLines)
	require.Len(t, long.all()[0], tailLineMax)
	require.Equal(t, "panic: early", long.reason())
}
