// Package replay reads and writes the prepared part of a trace: the requests that a load replays,
// as records of one size, and the sizes of the values that the store holds when the load begins.
//
// The host makes such a file from a trace in any format, and ranks stream it. It has a header of
// 64 bytes, the records, and the size of each key's value in 4 bytes. Integers are little-endian.
// A reader checks every record, so a file of another process cannot make it fail later.
package replay
