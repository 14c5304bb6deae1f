package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core"
	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/wire"
	"transportbench/core/transport"
)

// fakeDriver fails the test when it is opened.
type fakeDriver struct{ t *testing.T }

func (d fakeDriver) Info() transport.Info {
	return transport.Info{Name: "fake", Summary: "a fake for tests",
		Options: []transport.Option{{Name: "x", Type: transport.TypeBool}}}
}

func (d fakeDriver) Open(context.Context, transport.Config) (transport.Transport, error) {
	d.t.Error("opened")
	return nil, transport.ErrUnsupported
}

func noRank(transport.Driver) record.Control { panic("no rank was asked for") }

func TestNamed(t *testing.T) {
	one, two := describedDriver("one"), describedDriver("two")
	for program, want := range map[string]transport.Driver{
		"/a/transport-one": one, "transport-two": two} {
		driver, err := named(program, []transport.Driver{one, two})
		require.NoError(t, err)
		require.Equal(t, want, driver)
	}
	driver, err := named("/a/anything", []transport.Driver{two})
	require.NoError(t, err)
	require.Equal(t, two, driver)
	_, err = named("/a/transports-of-both", []transport.Driver{one, two})
	require.EqualError(t, err, "/a/transports-of-both contains several plugins: run it by the "+
		"name of one of them, transport-one, transport-two")
}

// The linker sets the digests of all plugins of a program, and each plugin reports its own.
func TestSources(t *testing.T) {
	defer func(before string) { sources = before }(sources)
	sources = "one=1f,two=2f"
	require.Equal(t, "2f", Describe(describedDriver("two")).Sources)
	require.Empty(t, Describe(describedDriver("tw")).Sources)
}

// describedDriver is a driver with a name and no more.
type describedDriver string

func (d describedDriver) Info() transport.Info { return transport.Info{Name: string(d)} }

func (describedDriver) Open(context.Context, transport.Config) (transport.Transport, error) {
	return nil, transport.ErrUnsupported
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestDescribe(t *testing.T) {
	var out, complaints bytes.Buffer
	require.Equal(t, exitOK, serve(fakeDriver{t}, noRank, []string{"describe"}, &out, &complaints))
	require.Empty(t, complaints.String())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	var d Description
	require.NoError(t, json.Unmarshal(out.Bytes(), &d))
	require.Equal(t, Describe(fakeDriver{t}), d)
	require.Equal(t, core.RuntimeDigest(), d.RuntimeDigest)
	require.Equal(t, ProtocolVersion, d.ProtocolVersion)

	require.Equal(t, exitInternal, serve(fakeDriver{t}, noRank, []string{"describe"},
		brokenWriter{}, &complaints))
	require.Contains(t, complaints.String(), "broken pipe")
}

func TestArguments(t *testing.T) {
	t.Setenv(wire.Handshake.MagicCookieKey, "")
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"by hand": {nil, exitUsage, "",
			`This is the transportbench plugin for the transport "fake": a fake for tests`},
		"serve by hand": {[]string{"serve"}, exitUsage, "", "transportbench run --transport fake"},
		"help":          {[]string{"--help"}, exitOK, "serve --debug", ""},
		"unknown":       {[]string{"descrbe"}, exitUsage, "", `unknown arguments ["descrbe"]`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, complaints bytes.Buffer
			require.Equal(t, c.code, serve(fakeDriver{t}, noRank, c.args, &out, &complaints))
			for text, in := range map[string]string{c.stdout: out.String(),
				c.stderr: complaints.String()} {
				require.Contains(t, in, text)
			}
			require.Equal(t, c.stdout == "", out.Len() == 0)
			require.Equal(t, c.stderr == "", complaints.Len() == 0)
		})
	}
}

func TestServeDebug(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	code := make(chan int)
	server := newServer(fakeDriver{t}, noRank)
	go func() { code <- serveDebug(ctx, "fake", server, in) }()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.True(t, lines.Scan())
	value, ok := strings.CutPrefix(lines.Text(), EnvReattach+"=")
	require.True(t, ok)
	var list []Reattach
	require.NoError(t, json.Unmarshal([]byte(strings.Trim(value, "'")), &list))
	require.Len(t, list, 1)
	require.Equal(t, Reattach{
		Transport: "fake", ProtocolVersion: ProtocolVersion, PID: os.Getpid(), Network: "unix",
		Address: list[0].Address,
	}, list[0])
	conn, err := net.Dial("unix", list[0].Address)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	cancel()
	require.Equal(t, exitOK, <-code)
	require.NoFileExists(t, list[0].Address)
}

func TestWatchParent(t *testing.T) {
	theirs, ours, err := os.Pipe()
	require.NoError(t, err)
	fd, err := unix.Dup(int(theirs.Fd()))
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	t.Setenv(wire.EnvParent, strconv.Itoa(fd))
	gone := make(chan struct{})
	require.NoError(t, watchParent(func() { close(gone) }))
	require.Empty(t, os.Getenv(wire.EnvParent))
	select {
	case <-gone:
		t.Fatal("the host is still there")
	default:
	}
	require.NoError(t, ours.Close())
	<-gone

	t.Setenv(wire.EnvParent, "no number")
	require.Error(t, watchParent(nil))
	t.Setenv(wire.EnvParent, "987654")
	require.ErrorContains(t, watchParent(nil), "bad file descriptor")
	t.Setenv(wire.EnvParent, "")
	require.NoError(t, watchParent(nil))
}

func TestLogLinesAreHclogs(t *testing.T) {
	var out bytes.Buffer
	logger := newLogger(&out, slog.LevelInfo)
	logger.Debug("no")
	logger.Warn("careful", "ring", 3, slog.Group("g", slog.String("msg", "kept")))
	var record map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &record))
	require.Equal(t, "careful", record["@message"])
	require.Equal(t, "warn", record["@level"])
	require.NotEmpty(t, record["@timestamp"])
	require.InDelta(t, 3, record["ring"], 0)
	require.Equal(t, map[string]any{"msg": "kept"}, record["g"])
	require.Equal(t, slog.LevelDebug, logLevel("DEBUG"))
	require.Equal(t, slog.LevelInfo, logLevel("?"))
}
