// Package heat has the colours of heat maps, and the maps of the network between hosts.
package heat
