// Package ranktest compares two samples of repeats by their ranks: a stratified permutation test
// with the interval that belongs to it, and Holm's correction for several tests.
package ranktest
