// Package wiring tells which worker of a run is connected to which, and by which peer number.
package wiring
