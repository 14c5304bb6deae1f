// Package launch starts the ranks of experiments: on this host, in debuggers that run already, or
// on the hosts of agents that join.
package launch
