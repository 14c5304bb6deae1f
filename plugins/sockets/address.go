package sockets

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
)

// address is what a worker tells its peers about itself.
type address struct {
	Nonce    []byte `json:"nonce"`
	Network  string `json:"network"`
	At       string `json:"at"`
	InFlight int    `json:"in_flight"`
	Payload  int    `json:"payload"`

	socket unix.Sockaddr
}

// decodeAddress reads a peer's address and refuses one that does not fit this side.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != dial.NonceSize {
		return a, fmt.Errorf("not an address of this transport: %.40q", encoded)
	}
	switch {
	case a.Network != s.network.name:
		return a,
			refuse("network",
				"%q here, and the peer has announced %.10q; set the same on all ranks",
				s.network.name, a.Network)
	case a.InFlight != s.inFlight:
		return a, fmt.Errorf("the peer was opened for %d calls in flight, this side for %d; use "+
			"the same on all ranks", a.InFlight, s.inFlight)
	case a.Payload != s.payload:
		return a, fmt.Errorf("the peer was opened for payloads of %d bytes, this side for %d; "+
			"use the same on all ranks", a.Payload, s.payload)
	}
	if a.socket, err = s.network.parse(a.At); err != nil {
		return a, fmt.Errorf("not an address of network %s: %.40q", s.network.name, a.At)
	}
	_, here := a.socket.(*unix.SockaddrInet4)
	if s.sock.Address.IsValid() && s.sock.Address.Is4() != here {
		return a, refuse("address", "%s cannot reach the peer's %s: one is IPv4, the other IPv6",
			s.sock.Address, a.At)
	}
	return a, nil
}
