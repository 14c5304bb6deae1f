// Package report writes sets of results as one HTML file that shows which transport is fast, where
// the time goes, and whether to trust the figures.
//
// [Build] reads the sets and computes everything on the page, except what depends on filters and
// zoom. [Page.Render] writes the file: HTML and SVG made here, tables and the pages of cells as
// compressed HTML, the figures of charts as compressed JSON, and the script that shows them. The
// file needs no network and no server. Package serve shows a set that still grows.
//
// Text from result files is untrusted. It is escaped in HTML here, the script only sets it as text,
// and the page's content security policy allows no other script.
//
// # Decisions
//
// Samples keep all their digits, so the page equals an export. They are compressed, because 5,000
// cells would be more than 100 MB of JSON. The page unpacks the overview at once and details when
// it shows them.
//
// Go computes and formats every figure, so that tests cover it; the script filters, sorts, draws
// and shows. It formats only the ticks of charts and what a point of a spectrum shows, with the
// copy of format.Number that TestFormatInBrowser compares with Go's. A table travels as rows of
// HTML and an order for each column, so that the script has no second copy of the rules. Tables of
// cells that resemble each other are next to each other in their compressed chunk, because the
// compressor looks back 32 KB only. A live page fetches the whole report again when files change:
// sending differences would be a second way to draw everything. Its server compares names, sizes
// and times of files, because network file systems send no inotify events.
package report
