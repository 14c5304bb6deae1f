// Package path measures the network between two hosts of a run: whether each reaches the other at
// the address that ranks would use, with small and with full packets, how long a round trip takes
// and how much passes.
package path
