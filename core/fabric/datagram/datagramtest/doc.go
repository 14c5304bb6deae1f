// Package datagramtest is the conformance suite of datagram ports, with a named test for each
// clause of the contract of core/fabric/datagram.
package datagramtest
