// Package perf runs Linux's perf beside a window of a run and reads what it prints: perf c2c
// samples loads that another processor's modified cache line answered (HITM), with the line and
// the code. The ranks themselves count each thread's instructions and cache misses, in a window
// before.
//
// perf attaches to the ranks' processes for most of its window. It slows what it watches, so the
// throughput of this window is no result.
package perf
