// Package netem describes what a network does to the packets between ranks, in the words of
// tc-netem(8): loss, delay, jitter, reordering and a rate.
package netem
