// Package report makes one HTML file of sets of results: what a reader looks at
// to see which transport is fast, where the time goes, and whether to trust it.
//
// [Build] reads the sets and computes; nothing on the page is computed anywhere
// else, but for what a reader filters or zooms. [Page.Render] writes the file:
// HTML and SVG made here, the figures as compressed JSON, and the script that
// draws curves and tables from them. The file needs no network and no server.
// [Server] shows a set that still grows.
//
// Whatever comes from result files is untrusted: in HTML it is escaped by its
// template, in the script it only ever becomes text, and the page's own policy
// (CSP) lets no other script run.
package report
