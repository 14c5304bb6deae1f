// Package check applies the checks to the result of a run: whether its numbers are right, and what
// may have disturbed them.
package check
