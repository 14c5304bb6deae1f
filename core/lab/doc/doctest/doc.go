// Package doctest compares what is written with golden files, for tests.
package doctest
