package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"transportbench/core/fabric/fabrictest"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience limits every wait for the browser. Nothing should take a tenth of it.
const patience = 2 * time.Minute

// All tests of the package share one browser.
var chromium struct {
	once    sync.Once
	ctx     context.Context
	missing string // why there is none
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.ctx != nil && chromium.err == nil {
		// Cancel ends the browser and waits until it and its children have exited.
		closing, cancel := context.WithTimeout(chromium.ctx, patience)
		if err := chromedp.Cancel(closing); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "closing the browser:", err)
			code = max(code, 1)
		}
		cancel()
	}
	os.Exit(code)
}

func startChromium() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		chromium.missing = "there is no Chromium here: scripts/setup.sh all installs it"
		return
	}
	// Containers run tests as root and have little shared memory.
	allocator, _ := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(path),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	chromium.ctx, _ = chromedp.NewContext(allocator)
	chromium.err = chromedp.Do(chromium.ctx)
}

// tab is a page in the browser, with its console output.
type tab struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	messages []string
	lax      bool // the console may say something
}

// newTab opens an empty page, or skips the test if there is no browser.
func newTab(t testing.TB) *tab {
	t.Helper()
	if fabrictest.Race {
		t.Skip("the race detector does not see into the browser; this test runs without it")
	}
	chromium.once.Do(startChromium)
	if chromium.missing != "" {
		t.Skip(chromium.missing)
	}
	require.NoError(t, chromium.err, "starting Chromium")
	ctx, cancel := chromedp.NewContext(chromium.ctx)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*patience)
	t.Cleanup(stop)
	b := &tab{TB: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return // the page is closed
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.String())
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !t.Failed() && !b.lax {
			require.Empty(t, b.messages, "the console must stay empty")
		}
	})
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, steps...))
}

// open opens a page as a file and waits until it is drawn.
func (b *tab) open(page []byte) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "report.html")
	require.NoError(b, os.WriteFile(path, page, 0o600))
	b.visit("file://" + path)
}

func (b *tab) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
	b.await(`document.documentElement.dataset.ready === "yes"`)
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.Helper()
	_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression,
		chromedp.WithPollingTimeout(patience), chromedp.WithPollingInterval(20*time.Millisecond)))
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.NoError(b, err, "waiting for %s; the console says %q", expression, b.messages)
	}
}

func eval[T any](b *tab, expression string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b, err, expression)
	return v
}

func (b *tab) media(media string, features ...string) {
	b.Helper()
	p := emulation.SetEmulatedMediaParams{Media: media}
	for pair := range slices.Chunk(features, 2) {
		p.Features = append(p.Features, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, p)
	require.NoError(b, err)
}

// press sends keys one by one.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// overflow lists the elements beyond the page's sides that are not in a scrolling element.
const overflow = `(() => {
  const wide = document.documentElement.clientWidth, list = [];
  for (const e of document.querySelectorAll("body *")) {
    const r = e.getBoundingClientRect();
    if (r.width === 0 || r.right <= wide + 1 && r.left >= -1 || e.closest(".skip") || e.parentElement.closest(".scroll, .uplot, svg")) continue;
    list.push(e.tagName + "." + e.className + "#" + e.id + " " + Math.round(r.left) + ".." + Math.round(r.right));
  }
  if (document.documentElement.scrollWidth > wide + 1) list.push("the page: " + document.documentElement.scrollWidth + " of " + wide);
  return list.slice(0, 5).join("; ");
})()`

// everyFold opens all tables.
const everyFold = `document.querySelectorAll("details").forEach((d) => { d.open = true; }); true`

func hasPrefixAny(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
}
