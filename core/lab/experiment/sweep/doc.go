// Package sweep measures a matrix of configurations.
//
// A [Spec] has a base, axes, exclusions and inclusions; [Expand] turns it into cells. [Run]
// measures one repeat of every cell, in an order shuffled by seed, then the next repeat, so that
// a drift of the machine affects all cells alike. Every repeat is a run of its own, with a new
// setup. It is on disk, complete and synced, before the next one begins, so that a sweep can be
// resumed after a crash.
//
// A rate may be a share of the capacity. The cells that measure capacities come first.
//
// A [PairedTest] measures two configurations until their difference is known.
package sweep
