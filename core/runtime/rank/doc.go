// Package rank is the measured runtime of one process: daemons that serve the
// key-value store, clients that call, and the phases that both go through. It
// drives every transport through core/transport and contains the only
// benchmark loops of the project, so that no difference between two transports
// comes from the loop.
//
// A [Rank] lives in the plugin's process. The host tells it what to do through
// [Control], over whatever link there is: nothing here assumes that the host is
// its parent, or on the same machine.
package rank
