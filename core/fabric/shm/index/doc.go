// Package index maps names to values in shared memory. One process writes, and any number of others
// look names up without locks.
//
// It is a hash table with linear probing. Each entry is one cache line with a state word, which
// changes with every use of the entry: a reader that sees the same state before and after has read
// one entry, and else it looks again. An entry becomes visible with the store of its state, so a
// writer that is killed at any moment leaves a table that is whole: the name that it was adding is
// absent.
package index
