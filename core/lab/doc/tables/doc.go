// Package tables turns results, and sets of results, into documents.
package tables
