package dial

import (
	"crypto/rand"
	"encoding/binary"
)

// NonceSize is the bytes of a [Nonce].
const NonceSize = 16

// Nonce tells a worker from every other. Only workers that have its address know it.
type Nonce [NonceSize]byte

// NewNonce returns a random nonce.
func NewNonce() (n Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// MaxPorts is the most further sockets of a connection that a [Hello] can list.
const MaxPorts = 16

// Hello is what the dialling side sends first on a socket, little-endian.
type Hello struct {
	Magic    uint64
	To, From Nonce // of the accepting and the dialling worker
	Use      Use
	// Port is the local port of the socket, so that nobody else can use the hello again; 0 for
	// Unix sockets.
	Port uint32
	// Ports are the local ports of the connection's further sockets in order, then zeros. These
	// sockets carry no hello.
	Ports [MaxPorts]uint16
}

const magic = 0x34_63_6f_73_74627274 // "trbtsoc4"

// Use is what a socket is for.
type Use uint32

// The uses of sockets.
const (
	Messages Use = iota
	Probe
)

// HelloSize is the bytes of a hello.
var HelloSize = binary.Size(Hello{})

// Encode returns the bytes of a hello.
func (h *Hello) Encode() []byte {
	h.Magic = magic
	b, _ := binary.Append(nil, binary.LittleEndian, h) // only types without a fixed size fail
	return b
}

// DecodeHello reads a hello that came from a port. ok is false if it is malformed, for another
// worker or from another port than it says.
func DecodeHello(b []byte, to Nonce, port uint32) (h Hello, ok bool) {
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil || len(b) != HelloSize {
		return h, false
	}
	return h, h.Magic == magic && h.To == to && h.Port == port && h.Use <= Probe
}
