package tcpx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"

	"transportbench/core/transport"
)

// nonceSize is the bytes of a nonce. A worker's is secret to all that do not have its
// address.
const nonceSize = 16

// address is what a worker tells its peers of itself.
type address struct {
	Nonce    []byte         `json:"nonce"`
	At       netip.AddrPort `json:"at"`
	Mode     string         `json:"mode"`
	Sockets  int            `json:"sockets"`
	Chunk    int            `json:"chunk"`
	Request  int            `json:"request"`
	Window   int            `json:"window"` // of receives
	InFlight int            `json:"in_flight"`
	Payload  int            `json:"payload"`
}

func (s *settings) announce(nonce []byte, at netip.AddrPort) address {
	return address{Nonce: nonce, At: at, Mode: s.mode.name, Sockets: s.sockets, Chunk: s.chunk, Request: s.request, Window: s.receiveWindow,
		InFlight: s.inFlight, Payload: s.payload}
}

// decodeAddress reads a peer's address and refuses one that does not fit.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != nonceSize || !a.At.IsValid() {
		return a, fmt.Errorf("not an address of this transport: %.40q", encoded)
	}
	for _, field := range []struct {
		option string
		here   int
		there  int
	}{
		{"sockets", s.sockets, a.Sockets},
		{"chunk", s.chunk, a.Chunk},
		{"request", s.request, a.Request},
	} {
		if field.here != field.there {
			return a, &transport.OptionError{Option: field.option,
				Problem: fmt.Sprintf("%d here, and the peer has announced %d; set the same on all ranks", field.here, field.there)}
		}
	}
	switch {
	case a.Window < 1 || a.Window > requests:
		return a, fmt.Errorf("the peer has announced a window of %d receives, and there are 1 to %d", a.Window, requests)
	case a.InFlight != s.inFlight:
		return a, fmt.Errorf("the peer was opened for %d calls in flight, this side for %d", a.InFlight, s.inFlight)
	case a.Payload != s.payload:
		return a, fmt.Errorf("the peer was opened for payloads of %d bytes, this side for %d", a.Payload, s.payload)
	case a.At.Addr().Is4() != s.address.Is4():
		return a, &transport.OptionError{Option: "address", Problem: fmt.Sprintf("%s cannot reach the peer's %s: one is IPv4, the other IPv6", s.address, a.At.Addr())}
	}
	return a, nil
}

// helloSize is the bytes that a socket begins with, from who dials:
//
//	magic u64 | nonce of the worker that is called | nonce of the one that calls | use u8 | 7 bytes of 0
const (
	helloSize  = 8 + 2*nonceSize + 8
	helloMagic = 0x31787063_74627274 // "trbtcpx1"
)

// useProbe is the use of a probe's first socket, and the next ones are below. The
// control socket of a connection is 0, and its data sockets are from 1 on.
const useProbe = 255

func encodeHello(called, caller []byte, use uint8) []byte {
	b := make([]byte, helloSize)
	binary.LittleEndian.PutUint64(b, helloMagic)
	copy(b[8:], called)
	copy(b[8+nonceSize:], caller)
	b[8+2*nonceSize] = use
	return b
}

// decodeHello reads who calls, if it is the worker of that nonce who is called.
func decodeHello(b, called []byte) (caller [nonceSize]byte, use uint8, ok bool) {
	if len(b) != helloSize || binary.LittleEndian.Uint64(b) != helloMagic || !bytes.Equal(b[8:8+nonceSize], called) {
		return caller, 0, false
	}
	return [nonceSize]byte(b[8+nonceSize:]), b[8+2*nonceSize], true
}
