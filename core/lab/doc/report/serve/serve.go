package serve

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"transportbench/core/base/printable"
	"transportbench/core/lab/doc/report"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/set"
)

// Server shows one set on the loopback interface and updates the page while the set grows. Without
// a client it only checks the files' sizes and times.
type Server struct {
	path       string
	options    report.Options
	progressOf func(dir string) string
	every      time.Duration // between checks of the files

	mu      sync.Mutex
	loader  set.Loader
	page    []byte // as rendered last
	of      string // fingerprint of the set in page
	version int
	news    chan struct{} // closed and replaced at each change
	seen    string        // fingerprint at the last check
	gone    bool          // the set was deleted

	progress string // of the sweep, as JSON; empty without one
}

// New returns a server for the set at path that checks for changes at the interval every. A
// directory may still be empty. progress returns the progress of the sweep that writes the
// directory, as JSON, or "" if there is none. New fails if path is a file that cannot be shown.
func New(ctx context.Context, path string, o report.Options, progress func(dir string) string,
	every time.Duration) (*Server, error) {
	o.Live = new(cellpage.Cache)
	s := &Server{path: path, options: o, progressOf: progress, every: every,
		news: make(chan struct{})}
	if _, err := s.render(ctx); err != nil {
		if info, failed := os.Stat(path); failed != nil || !info.IsDir() {
			return nil, err
		}
	}
	return s, nil
}

// Listen opens a port of the loopback interface; port 0 chooses a free one.
func Listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil,
			fmt.Errorf("port %d is in use: choose another with --port, or 0 for any free one", port)
	}
	return l, err
}

// Serve answers requests until ctx ends, then closes the listener and returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /events", s.serveEvents)
	server := &http.Server{
		Handler: onlyLoopback(mux), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	watching, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(watching) })
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		// Event streams end with their context.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		if server.Shutdown(ending) != nil {
			server.Close()
		}
		cancel()
		if err = <-failed; errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	stop()
	watcher.Wait()
	return err
}

// onlyLoopback refuses requests for other host names: the owner of a web page could let its name
// resolve to this address and read the page.
func onlyLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		ip := net.ParseIP(host)
		if !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this server answers on localhost only", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	page, err := s.render(r.Context())
	status, nothing := http.StatusOK, "There is nothing to show yet"
	if s.deleted() {
		status, nothing = http.StatusGone, "The results were deleted"
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if page == nil {
		w.Header().Set("Refresh", strconv.Itoa(max(1, int(s.every.Seconds()))))
		page = fmt.Appendf(nil, "<!DOCTYPE html><title>transportbench</title><p>%s: %s</p>",
			nothing, template.HTMLEscapeString(printable.Text(err.Error())))
	}
	w.WriteHeader(status)
	_, _ = w.Write(page) // the reader went away
}

// deleted reports whether the set, which was there at the start, is gone.
func (s *Server) deleted() bool {
	_, err := os.Stat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// render returns the page of the current set. If that cannot be read, perhaps because it is being
// written, render returns the last page and the error.
func (s *Server) render(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := set.Fingerprint(s.path)
	if err != nil {
		return s.page, err
	}
	if s.page != nil && now == s.of {
		return s.page, nil
	}
	loaded, err := s.loader.Load(s.path)
	if err == nil {
		err = consistency.Set(loaded)
	}
	if err != nil {
		return s.page, err
	}
	page, err := report.Build(ctx, []*set.Set{loaded}, s.options)
	if err != nil {
		return s.page, err
	}
	s.options.Live.Sweep()
	var text strings.Builder
	if err := page.Render(&text); err != nil {
		return s.page, err
	}
	s.page, s.of = []byte(text.String()), now
	return s.page, nil
}

// watch notifies event streams of changes.
func (s *Server) watch(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := set.Fingerprint(s.path)
		gone, progress := s.deleted(), s.progressOf(s.path)
		s.mu.Lock()
		if s.seen == "" {
			s.seen = s.of
		}
		changed := err == nil && now != s.seen
		if changed {
			s.seen = now
			s.version++
		}
		if changed || progress != s.progress || gone != s.gone {
			s.progress, s.gone = progress, gone
			close(s.news)
			s.news = make(chan struct{})
		}
		s.mu.Unlock()
	}
}

// serveEvents streams an event for each change, and one at the start if the set has changed since
// the page was rendered; one with the progress of a sweep when that changes; one when the set was
// deleted; and one at the end.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": start\n\n")
	s.mu.Lock()
	sent := s.version
	if s.seen != "" && s.seen != s.of {
		sent--
	}
	s.mu.Unlock()
	told, toldGone := "", false
	for {
		s.mu.Lock()
		version, progress, gone, news := s.version, s.progress, s.gone, s.news
		s.mu.Unlock()
		if gone && !toldGone {
			fmt.Fprint(w, "event: gone\ndata: 1\n\n")
		}
		toldGone = gone
		if progress != told && !gone {
			told = progress
			fmt.Fprintf(w, "event: progress\ndata: %s\n\n", progress)
		}
		if version != sent && !gone {
			sent = version
			fmt.Fprintf(w, "event: changed\ndata: %d\n\n", version)
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done(): // of the reader, who gets nothing more, or of the server
			fmt.Fprint(w, "event: stopped\ndata: 1\n\n")
			_ = out.Flush()
			return
		case <-news:
		}
	}
}
