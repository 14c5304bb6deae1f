// Package report writes sets of results as one HTML file that shows which transport is fast, where
// the time goes, and whether to trust the figures.
//
// [Build] reads the sets and computes everything on the page, except what depends on filters and
// zoom. [Page.Render] writes the file: HTML and SVG made here, the figures as compressed JSON, and
// the script that draws curves and tables from them. The file needs no network and no server.
// [Server] shows a set that still grows.
//
// Text from result files is untrusted. Templates escape it in HTML, the script only sets it as
// text, and the page's content security policy allows no other script.
//
// # Decisions
//
// Figures keep all their digits, so the page equals an export. They are compressed, because 5,000
// cells would be more than 100 MB of JSON. The page unpacks the overview at once and details when
// it shows them.
//
// The command computes every figure, so that tests cover it; the script selects and arranges. A
// live page fetches the whole report again when files change: sending differences would be a second
// way to draw everything. [Server] compares names, sizes and times of files, because network file
// systems send no inotify events.
package report
