// Package faulty injects faults into the datagrams of a port of package datagram.
package faulty
