// Package doublemap has rings of memory that are mapped twice in a row: a message that wraps around
// the end of a ring is contiguous all the same.
package doublemap
