//go:build race

package fabrictest

// Race reports whether the race detector is on. Tests leave out what it cannot see or what would
// take too long with it.
const Race = true
