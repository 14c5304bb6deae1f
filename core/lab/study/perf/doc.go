// Package perf runs Linux's perf beside the windows of a run and reads what it prints: perf stat
// counts instructions and cache misses of each thread, and perf c2c samples loads that another
// processor's modified cache line answered (HITM), with the line and the code.
//
// perf attaches to the ranks' processes for most of a window. It slows what it watches, so the
// throughput of these windows is no result.
package perf
