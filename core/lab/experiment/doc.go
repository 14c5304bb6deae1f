// Package experiment is the engine of all experiments. An [Engine] makes one run of a
// configuration, several, a sweep of many, or a test of a pair, on this host or on others, and
// keeps the results. Studies are its users, and so is the command.
//
// The engine knows a transport's plugin as a [Plugin]: what it says of itself, and what starts its
// ranks. Its user finds plugins. Package runner makes the single run, and [runner.Expected] has the
// time that it takes.
//
// A [Spec] of a sweep has a base, axes, exclusions and inclusions; [Expand] turns it into cells.
// [Engine.Sweep] measures one repeat of every cell, in an order shuffled by seed, then the next
// repeat, so that a drift of the machine affects all cells alike. Every repeat is a run of its own,
// with a new setup. It is on disk, complete and synced, before the next one begins, so that a sweep
// can be resumed after a crash.
//
// A rate may be a share of the capacity. The cells that measure capacities come first.
//
// A [PairedTest] measures two configurations until their difference is known.
package experiment
