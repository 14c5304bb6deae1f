package sockets

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"
)

// nonceSize is the bytes of a nonce. Only workers that have a worker's address know its
// nonce.
const nonceSize = 16

type nonce [nonceSize]byte

// public returns bytes that tell workers apart and do not tell the nonce.
func (n nonce) public() []byte {
	sum := sha256.Sum256(n[:])
	return sum[:8]
}

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
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != nonceSize {
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

// hello is what the dialling side sends first on a socket, little-endian.
type hello struct {
	Magic    uint64
	To, From nonce // of the accepting and the dialling worker
	Use      uint32
	// Port is the local port of the socket, so that nobody else can use the hello again; 0 for Unix
	// sockets.
	Port uint32
}

const helloMagic = 0x316b6373_74627274 // "trbtsck1"

// Values of hello.Use.
const (
	useMessages = iota
	useProbe
)

// helloSize is the bytes of a hello.
var helloSize = binary.Size(hello{})

func (h *hello) encode() []byte {
	h.Magic = helloMagic
	b, _ := binary.Append(nil, binary.LittleEndian, h) // only types without a fixed size fail
	return b
}

// decodeHello reads a hello. ok is false if it is malformed, for another worker or from another
// port than it says.
func decodeHello(b []byte, to nonce, port uint32) (h hello, ok bool) {
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil || len(b) != helloSize {
		return h, false
	}
	return h, h.Magic == helloMagic && h.To == to && h.Port == port && h.Use <= useProbe
}
