// Package cellpage makes the page that a report has of one cell: it reads the cell's results, and
// returns the documents that the terminal prints about them as HTML, with places for charts.
package cellpage
