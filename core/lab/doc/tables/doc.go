// Package tables makes documents of results and of sets of them.
package tables
