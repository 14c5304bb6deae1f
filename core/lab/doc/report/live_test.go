package report

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Serve serves the set in a directory until stop is called. Package serve imports this one, so a
// test outside of it sets Serve.
var Serve func(t testing.TB, dir string) (url string, stop func())

// New cells appear on the open page, and the choices of the reader stay.
func TestLivePage(t *testing.T) {
	b := newTab(t)
	dir := t.TempDir()
	list := loads()
	put(t, filepath.Join(dir, "0.json"), fake(t, list[0], 6, 1, 1))
	put(t, filepath.Join(dir, "1.json"), fake(t, list[22], 6, 1, 1))
	url, stop := Serve(t, dir)
	b.visit(url)
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

	// An update that ends after the server does not hide that it was stopped.
	eval[bool](b, `(() => {
		const real = window.fetch, released = new Promise((end) => { window.release = end; });
		window.fetch = async (...request) => {
			const text = await (await real(...request)).text();
			window.fetched = true;
			await released;
			return { text: async () => text };
		};
		window.scrollTo = () => { window.updated = true; }; // the end of an update
		return true;
	})()`)
	put(t, filepath.Join(dir, "4.json"), fake(t, list[2], 6, 1, 1))
	b.await(`window.fetched === true`)
	b.lax = true // the console reports the lost connection
	stop()
	const state = `document.getElementById("live").textContent`
	b.await(state + `.includes("the server was stopped")`)
	eval[bool](b, `window.release(); true`)
	b.await(`window.updated === true`)
	require.Contains(t, eval[string](b, state), "the server was stopped")
}
