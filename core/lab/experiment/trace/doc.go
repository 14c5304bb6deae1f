// Package trace reads traces of requests that people have, in several formats, and prepares a part
// of one for replay.
//
// A format is an entry of a table: which columns or keys of an object have the time, the
// operation, the key and the size, in which unit, and whether a request stands for blocks of
// tokens. A trace may be compressed with gzip or zstd, and may be larger than memory: reading one
// takes a bounded amount of memory, most of it for the keys ([MaxKeys]).
//
// A trace comes from elsewhere. Each mistake in it is an error of one line with the number of the
// line.
package trace
