package report

import (
	"bufio"
	"context"
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
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// serving is a running server.
type serving struct {
	url  string
	port int
	stop func() error // as Ctrl-C does; it returns what Serve did
}

func serve(t testing.TB, dir string) serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := NewServer(ctx, dir, Options{Compare: compare.Defaults(),
		Progress: experiment.ProgressOf()}, 20*time.Millisecond)
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
	put(t, filepath.Join(dir, "a.json"), fake(t, loads()[0], 6, 1, 1))
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
		"/./a.json", "/a.json", "/events/../a.json", "/%00", "/?file=/etc/passwd#/../a.json",
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
	put(t, filepath.Join(dir, "a.json"), fake(t, loads()[0], 6, 1, 1))
	s := serve(t, dir)
	_, body := get(t, s.url, "")
	var doc document
	unpacked(t, []byte(body), "data", &doc)
	require.Len(t, doc.Cells.Names, 1)

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
	put(t, filepath.Join(dir, "b.json"), fake(t, loads()[1], 6, 1, 1))
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: changed") {
	}
	require.Equal(t, "event: changed", lines.Text())
	_, body = get(t, s.url, "")
	unpacked(t, []byte(body), "data", &doc)
	require.Len(t, doc.Cells.Names, 2)
	require.NoError(t, s.stop())
	for lines.Scan() { // the stream ends
	}
}

// quiet is a watcher of a sweep that says nothing.
type quiet struct{ io.Writer }

func (quiet) Begin(experiment.Status) runner.Observer { return nil }
func (quiet) Again(experiment.Status, string, string) {}
func (quiet) Cell(experiment.Status, *set.Cell)       {}

// Event streams tell how far a sweep is, that it has ended, and that the server was stopped.
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
		return fake(t, loads()[0], 1, 1, 1), nil
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
	require.NoError(t, s.stop())
	await("event: stopped")
}

// An empty directory is shown once it has results. While a file cannot be read, the old page stays.
func TestServerBeforeAndBesideASweep(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir)
	_, body := get(t, s.url, "")
	require.Contains(t, body, "nothing to show yet")
	put(t, filepath.Join(dir, "a.json"), fake(t, loads()[0], 6, 1, 1))
	_, body = get(t, s.url, "")
	var doc document
	unpacked(t, []byte(body), "data", &doc)
	require.Len(t, doc.Cells.Names, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.json"), []byte(`{"half`), 0o600))
	_, body = get(t, s.url, "")
	unpacked(t, []byte(body), "data", &doc)
	require.Len(t, doc.Cells.Names, 1)

	_, err := NewServer(t.Context(), filepath.Join(dir, "none"), Options{}, time.Second)
	require.ErrorContains(t, err, "none")
	_, err = NewServer(t.Context(), filepath.Join(dir, "b.json"), Options{}, time.Second)
	require.ErrorContains(t, err, "b.json")
}

// New cells appear on the open page, and the choices of the reader stay.
func TestLivePage(t *testing.T) {
	b := newTab(t)
	dir := t.TempDir()
	list := loads()
	put(t, filepath.Join(dir, "0.json"), fake(t, list[0], 6, 1, 1))
	put(t, filepath.Join(dir, "1.json"), fake(t, list[22], 6, 1, 1))
	s := serve(t, dir)
	b.visit(s.url)
	b.await(`document.getElementById("shown").textContent === "2 of 2 cells"`)
	eval[bool](b, `document.querySelector("#filters input[name=series][value='0']").click(); true`)
	b.await(`document.getElementById("shown").textContent === "1 of 2 cells"`)
	require.Equal(t, "shm (memfd)", eval[string](b, `seriesName(0)`))
	put(t, filepath.Join(dir, "2.json"), fake(t, list[1], 6, 1, 1))
	put(t, filepath.Join(dir, "3.json"), fake(t, list[11], 6, 1, 1)) // which comes first
	b.await(`/ of 4 cells$/.test(document.getElementById("shown").textContent)`)
	require.Equal(t, "copyrpc (soft)", eval[string](b, `seriesName(0)`))
	require.Equal(t, "true false true", eval[string](b,
		`[...document.querySelectorAll("#filters input[name=series]")].map((i) => i.checked).join(" ")`), "the filter stays")
	b.await(`document.getElementById("live").textContent.includes("4 cells")`)
	require.Contains(t, eval[string](b, `document.getElementById("live").textContent`), "live")

	b.lax = true // the console reports the lost connection
	require.NoError(t, s.stop())
	b.await(`document.getElementById("live").textContent.includes("the server was stopped")`)
}
