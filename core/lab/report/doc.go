// Package report writes sets of results as one HTML file, from which a reader sees which transport is
// fast, where the time goes, and whether to trust the figures.
//
// [Build] reads the sets and computes everything on the page, except what depends on filters and zoom.
// [Page.Render] writes the file: HTML and SVG made here, the figures as compressed JSON, and the script
// that draws curves and tables from them. The file needs no network and no server. [Server] shows a set
// that still grows.
//
// Text from result files is untrusted. Templates escape it in HTML, the script only sets it as text,
// and the page's content security policy allows no other script.
package report
