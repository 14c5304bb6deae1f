// Package workload decides what a client asks for next: which key, what of it,
// and how large a value it writes; and it names the profiles, sets of options
// that reproduce a known load.
//
// A [Source] is deterministic: the same configuration and client number give
// the same requests, whatever the transport. Each client has a stream of its
// own that is independent of the others'.
//
// # Distributions
//
// uniform draws every key alike.
//
// zipfian draws the key of rank r (1 is the hottest) with a probability
// proportional to r^-theta, and is always scrambled: ranks are spread over the
// keys, so that hot keys are neither neighbours in memory nor all on one
// daemon. The scrambling is a permutation of the keys. YCSB hashes the rank
// modulo the number of keys instead, which maps about 37% of all keys to no
// rank at all and gives others the sum of several, so that what is drawn is
// not the distribution that the option names.
//
// hotspot sends a share of the requests to a share of the keys, and draws
// uniformly within both parts. Hot keys are scattered as those of zipfian.
//
// latest is zipfian over age: rank 1 is the key that was inserted last. It goes
// with insertions. Client c of C inserts the keys of number k*C+c, for k from 0
// on, and where the keys end it begins again: an insertion replaces the oldest
// key, so that the store keeps its size for however long a run takes. A client
// knows its own insertions, and takes it that the others are as far; before its
// first, the last keys count as the newest. Numbers are scattered over the keys
// as above.
//
// sequential walks over the keys in their order and begins again at their end.
// Each client starts in a stretch of its own.
//
// # Sizes
//
// Values are written with sizes drawn for each, and the store begins with
// values whose sizes are so distributed over the keys: see [Sizes].
package workload
