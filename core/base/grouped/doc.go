// Package grouped divides lists into groups.
package grouped
