// Package sample computes the metrics of a repeat, and its stalls, from what the ranks reported and
// the probes around the window read.
package sample
