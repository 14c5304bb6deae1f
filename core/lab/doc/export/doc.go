// Package export writes sets of results in the formats of other tools: CSV, the Go benchmark format
// (for benchstat), HDR V2 logs and percentile tables, and Chrome traces.
package export
