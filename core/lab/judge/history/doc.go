// Package history reads many sets of results, of versions, nights or machines, and follows each
// metric of each cell through them: its series, where its level changed, and what somebody has
// accepted.
//
// The baseline is not one chosen set but the level since the last change, so it moves on with the
// versions.
package history
