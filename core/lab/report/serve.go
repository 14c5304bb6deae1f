package report

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"transportbench/core/lab/result/set"
)

// Server shows one set on the loopback interface, and follows it while it
// grows. What it costs while nobody looks is a look at the files' sizes.
type Server struct {
	path    string
	options Options
	// Every is how often the files are looked at.
	every time.Duration

	mu      sync.Mutex
	loader  set.Loader
	page    []byte // as it was rendered last
	of      string // fingerprint that page is of
	version int
	news    chan struct{} // closed and replaced at each change
	seen    string        // fingerprint of the last look
}

// NewServer prepares to show the set at path, and looks for changes every so
// often. A directory may be empty yet; it is an error where a file cannot be
// shown.
func NewServer(ctx context.Context, path string, o Options, every time.Duration) (*Server, error) {
	o.Live, o.cache = true, new(cache)
	s := &Server{path: path, options: o, every: every, news: make(chan struct{})}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	if _, err := s.render(ctx); err != nil && !info.IsDir() {
		return nil, err
	}
	return s, nil
}

// Listen opens a port of the loopback interface; 0 is any that is free. Its
// error says so where the port is taken.
func Listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use: choose another with --port, or 0 for any", port)
	}
	return l, err
}

// Serve answers until ctx ends, which is no error, and closes the listener.
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
		// Streams end by themselves, since their context does.
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

// onlyLoopback refuses requests for other names: a page elsewhere could have
// its own name point here, and read what is shown.
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
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if page == nil {
		w.Header().Set("Refresh", strconv.Itoa(max(1, int(s.every.Seconds()))))
		fmt.Fprintf(w, "<!DOCTYPE html><title>transportbench</title><p>There is nothing to show yet: %s</p>", template.HTMLEscapeString(err.Error()))
		return
	}
	_, _ = w.Write(page) // the reader went away
}

// render returns the page of the set as it is now. Where that cannot be read
// while it is being written, it is the last one.
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
	if err != nil {
		return s.page, err
	}
	page, err := Build(ctx, []*set.Set{loaded}, s.options)
	if err != nil {
		return s.page, err
	}
	s.options.cache.sweep()
	var text strings.Builder
	if err := page.Render(&text); err != nil {
		return s.page, err
	}
	s.page, s.of = []byte(text.String()), now
	return s.page, nil
}

// watch tells of changes.
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
		s.mu.Lock()
		if s.seen == "" {
			s.seen = s.of
		}
		if err == nil && now != s.seen {
			s.seen = now
			s.version++
			close(s.news)
			s.news = make(chan struct{})
		}
		s.mu.Unlock()
	}
}

// serveEvents streams an event for each change, and one at the start where the
// set has changed since the page was made.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": it begins\n\n")
	s.mu.Lock()
	told := s.version
	if s.seen != "" && s.seen != s.of {
		told--
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		version, news := s.version, s.news
		s.mu.Unlock()
		if version != told {
			told = version
			fmt.Fprintf(w, "event: changed\ndata: %d\n\n", version)
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		}
	}
}
