// Package workload generates the requests of a client: which key, which operation, and how
// large a value to write.
//
// A [Generator] is deterministic: the same configuration and client number give the same
// requests with every transport. Each client has an independent stream.
//
// A [Stream] has the requests of one client in a part of a trace, and their times. A Generator
// returns those instead of drawn ones if it is told to.
//
// # Distributions of keys
//
//   - uniform draws all keys with equal probability.
//   - zipfian draws the key of rank r (1 is the hottest) with a probability proportional to
//     r^-theta. A permutation spreads the ranks over the keys, so that hot keys are neither
//     neighbours in memory nor all on one daemon. YCSB hashes the rank modulo the number of keys
//     instead, which leaves about 37% of the keys without a rank and gives others several, so it
//     does not draw the distribution that the option names.
//   - hotspot sends a share of the requests to a share of the keys, and is uniform within both
//     parts. Hot keys are spread like those of zipfian.
//   - latest is zipfian over age, for loads with insertions: rank 1 is the key that was inserted
//     last. Client c of C inserts the keys k*C+c for k from 0 on, spread like those of zipfian,
//     and begins again at the end: an insertion replaces the oldest key, so the store keeps its
//     size. A client knows its own insertions and assumes that the others have made as many;
//     before its first insertion, the last keys count as the newest.
//   - sequential walks over the keys in order and begins again at the end. Each client starts in
//     its own stretch.
//
// # Sizes of values
//
// Each write draws the size of its value. The store starts with values whose sizes have the
// same distribution over the keys; see [Sizes].
package workload
