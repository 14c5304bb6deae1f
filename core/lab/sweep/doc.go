// Package sweep measures a matrix of configurations.
//
// A [Spec] has a base, axes, exclusions and inclusions; [Expand] makes the
// cells of it. [Run] measures them repeat by repeat: one of every cell, in an
// order shuffled by seed, then the next, so that a drift of the machine touches
// all alike. Every repeat is a run of its own, with a new set-up; it is on disk,
// whole and durable, before the next begins, so that [Open] can go on wherever
// a sweep was broken off.
//
// A [Pool] keeps the plugins' processes between the runs of a round, and starts
// new ones for the next: what differs between two starts of a program is then
// part of the noise between repeats and not of the difference between sweeps.
package sweep
