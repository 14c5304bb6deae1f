// Package pow2 rounds sizes to powers of two, so that rings can mask a position
// instead of dividing it.
package pow2
