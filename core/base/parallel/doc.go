// Package parallel divides work among the processors.
package parallel
