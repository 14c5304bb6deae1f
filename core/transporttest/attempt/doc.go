// Package attempt runs a function that has the methods of a test, within a time limit, and returns
// its failures, so that a test can require a function to fail.
package attempt
