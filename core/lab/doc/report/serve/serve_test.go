package serve

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/lab/doc/report"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// oneCell is how a page with one cell counts them.
const oneCell = " 1 cell:"

// serving is a running server.
type serving struct {
	url  string
	port int
	stop func() error // as Ctrl-C does; it returns what Serve did
}

func serve(t testing.TB, dir string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(ctx, dir, report.Options{Compare: compare.Defaults()}, experiment.ProgressOf(),
		20*time.Millisecond)
	require.NoError(t, err)
	l, err := Listen(0)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	var once error
	stopped := false
	stop := func() error {
		if !stopped {
			stopped = true
			cancel()
			once = <-served
		}
		return once
	}
	t.Cleanup(func() { _ = stop() })
	return serving{"http://" + l.Addr().String(), l.Addr().(*net.TCPAddr).Port, stop}
}

// made returns a result with some calls in flight.
func made(inFlight int) *result.Result {
	r := &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: time.Unix(1, 0), Config: config.Default(),
		Environment: machine.Environment{Identity: machine.Identity{CPU: "Some CPU"}},
		Plugin:      result.Plugin{Name: "shm", Version: "1", Provider: "memfd"},
		Repeats:     []result.Repeat{{Samples: map[string]float64{result.Throughput: 1e6}}},
	}
	r.Config.InFlight = inFlight
	r.Summary = result.SummarizeRepeats(r.Repeats)
	return r
}

// put writes a result's file into a directory.
func put(t testing.TB, dir string, inFlight int) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, result.Encode(&text, made(inFlight)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(inFlight, ".json")), text.Bytes(),
		0o600))
}

func get(t testing.TB, url, host string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	if host != "" {
		request.Host = host
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestServerAnswersToItsOwnNamesOnly(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, 1)
	s := serve(t, dir)
	for _, host := range []string{"", "localhost", "localhost:8420", "127.0.0.1:1", "[::1]:8420",
		"LOCALHOST"} {
		status, body := get(t, s.url+"/", host)
		require.Equal(t, http.StatusOK, status, host)
		require.Contains(t, body, "connect-src 'self'")
	}
	for _, host := range []string{"evil.example", "evil.example:8420", "localhost.evil.example",
		"10.0.0.1", "0.0.0.0:8420"} {
		for _, path := range []string{"/", "/events"} {
			status, body := get(t, s.url+path, host)
			require.Equal(t, http.StatusForbidden, status, host)
			require.NotContains(t, body, "Some CPU")
		}
	}
	for _, path := range []string{
		"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc/passwd",
		"/..%5c..%5cetc/passwd", "//etc/passwd",
		"/./1.json", "/1.json", "/events/../1.json", "/%00", "/?file=/etc/passwd#/../1.json",
		"/index.html", "/debug/pprof/",
	} {
		status, body := get(t, s.url+path, "")
		if strings.HasPrefix(path, "/?") { // a query changes nothing
			require.Equal(t, http.StatusOK, status, path)
		} else {
			require.Equal(t, http.StatusNotFound, status, path)
		}
		require.NotContains(t, body, "root:", path)
	}
	require.NoError(t, s.stop())
}

func TestListenOnLoopbackOnly(t *testing.T) {
	l, err := Listen(0)
	require.NoError(t, err)
	defer l.Close()
	address := l.Addr().(*net.TCPAddr)
	require.True(t, address.IP.IsLoopback())
	_, err = Listen(address.Port)
	require.EqualError(t, err, "port "+portOf(l)+
		" is in use: choose another with --port, or 0 for any free one")
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// Event streams get a change, and the page has it. An open stream does not keep the server from
// ending.
func TestServerTellsOfChanges(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, 1)
	s := serve(t, dir)
	_, body := get(t, s.url, "")
	require.Contains(t, body, oneCell)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events",
		http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	require.True(t, lines.Scan())
	put(t, dir, 2)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: changed") {
	}
	require.Equal(t, "event: changed", lines.Text())
	_, body = get(t, s.url, "")
	require.Contains(t, body, " 2 cells:")
	require.NoError(t, s.stop())
	for lines.Scan() { // the stream ends
	}
}

// quiet is a watcher of a sweep that says nothing.
type quiet struct{ io.Writer }

func (quiet) Begin(experiment.Status) runner.Observer { return nil }
func (quiet) Again(experiment.Status, string, string) {}
func (quiet) Cell(experiment.Status, *set.Cell)       {}

// Event streams tell how far a sweep is, that it has ended, that it is gone, and that the server
// was stopped.
func TestServerFollowsASweep(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events",
		http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		require.Fail(t, "the stream ended", "before %q", text)
	}
	steps := make(chan bool)
	sweep := &experiment.Sweep{
		Spec: experiment.NewSpec(), Plan: &experiment.Plan{Repeats: 2,
			Cells: []experiment.Cell{{ID: "one", Config: config.Default()}}}, Dir: dir,
		Plugins: experiment.Plugins{config.Default().Transport: {
			Launcher: func(io.Writer, bool) (runner.Launcher, error) { return nil, nil },
		}},
	}
	measure := func(context.Context, runner.Request, runner.Observer) (*result.Result, error) {
		<-steps
		return made(1), nil
	}
	ended := make(chan error)
	go func() {
		_, err := (&experiment.Engine{Make: measure}).Sweep(t.Context(), sweep, quiet{})
		ended <- err
	}()
	await(`data: {"done":0,"planned":2,"ended":false,"left_s":0}`)
	steps <- true
	await(`data: {"done":1,"planned":2,"ended":false`)
	steps <- true
	await(`data: {"done":2,"planned":2,"ended":true,"left_s":0}`)
	require.NoError(t, <-ended)
	require.NoError(t, os.Rename(dir, filepath.Join(t.TempDir(), "elsewhere")))
	await("event: gone")
	require.NoError(t, s.stop())
	for lines.Scan() && lines.Text() != "event: stopped" {
		require.NotContains(t, lines.Text(), "progress", "it would take the place of gone")
	}
}

// While a set is deleted, the status of its last page is that it is gone.
func TestServerOfADeletedSet(t *testing.T) {
	for _, c := range []struct{ cells, there, gone string }{
		{"none", "nothing to show yet", "were deleted"}, {"one", oneCell, oneCell},
	} {
		dir := filepath.Join(t.TempDir(), "set")
		require.NoError(t, os.Mkdir(dir, 0o700))
		if c.cells == "one" {
			put(t, dir, 1)
		}
		s := serve(t, dir)
		shows := func(status int, text string) {
			t.Helper()
			got, body := get(t, s.url, "")
			require.Equal(t, status, got, c.cells)
			require.Contains(t, body, text)
		}
		shows(http.StatusOK, c.there)
		require.NoError(t, os.Rename(dir, dir+"-elsewhere"))
		shows(http.StatusGone, c.gone)
		require.NoError(t, os.Rename(dir+"-elsewhere", dir))
		shows(http.StatusOK, c.there)
	}
}

// An empty directory is shown once it has results. While a file cannot be read, the old page stays.
func TestServerBeforeAndBesideASweep(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	_, body := get(t, s.url, "")
	require.Contains(t, body, "nothing to show yet")
	put(t, dir, 1)
	_, body = get(t, s.url, "")
	require.Contains(t, body, oneCell)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.json"), []byte(`{"half`), 0o600))
	_, body = get(t, s.url, "")
	require.Contains(t, body, oneCell)

	for _, name := range []string{"none", "b.json"} {
		_, err := New(t.Context(), filepath.Join(dir, name), report.Options{}, nil, time.Second)
		require.ErrorContains(t, err, name)
	}
}
