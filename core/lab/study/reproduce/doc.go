// Package reproduce measures what a document has measured. Package judge/reproduce knows the
// documents and compares the figures.
package reproduce
