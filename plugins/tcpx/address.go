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
	At       netip.AddrPort `json:"at"`        // of control sockets and probes
	DataPort uint16         `json:"data_port"` // of data sockets, at the same IP address
	Mode     string         `json:"mode"`
	Sockets  int            `json:"sockets"`
	Chunk    int            `json:"chunk"`
	Request  int            `json:"request"`
	Window   int            `json:"window"` // of receives
	InFlight int            `json:"in_flight"`
	Payload  int            `json:"payload"`
}

func (s *settings) announce(nonce []byte, at netip.AddrPort, dataPort uint16) address {
	return address{Nonce: nonce, At: at, DataPort: dataPort, Mode: s.mode.name, Sockets: s.sockets, Chunk: s.chunk, Request: s.request, Window: s.receiveWindow,
		InFlight: s.inFlight, Payload: s.payload}
}

// decodeAddress reads a peer's address and refuses one that does not fit.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != nonceSize || !a.At.IsValid() || a.DataPort == 0 {
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

// helloSize is the bytes that a control socket or a probe's begins with, from who dials:
//
//	magic u64 | nonce of the worker that is called | nonce of the one that calls | use u8 | 7 bytes of 0 |
//	ports that the connection's data sockets come from, in their order, 16 of u16, those there are not 0
//
// A data socket says nothing: what it carried would go where the NIC puts payloads.
const (
	helloUse   = 8 + 2*nonceSize
	helloPorts = helloUse + 8
	helloSize  = helloPorts + 2*maxSockets
	helloMagic = 0x32787063_74627274 // "trbtcpx2"
)

// useProbe is the use of a probe's first socket, and the next ones are below.
const (
	useControl = 0
	useProbe   = 255
)

type hello struct {
	caller [nonceSize]byte
	use    uint8
	ports  [maxSockets]uint16 // of the control socket's alone
}

func (h *hello) encode(called []byte) []byte {
	b := make([]byte, helloSize)
	binary.LittleEndian.PutUint64(b, helloMagic)
	copy(b[8:], called)
	copy(b[8+nonceSize:], h.caller[:])
	b[helloUse] = h.use
	for i, port := range h.ports {
		binary.LittleEndian.PutUint16(b[helloPorts+2*i:], port)
	}
	return b
}

// decodeHello reads who calls, if it is the worker of that nonce who is called, and for a
// use that there is.
func decodeHello(b, called []byte) (h hello, ok bool) {
	if len(b) != helloSize || binary.LittleEndian.Uint64(b) != helloMagic || !bytes.Equal(b[8:8+nonceSize], called) {
		return h, false
	}
	h.caller, h.use = [nonceSize]byte(b[8+nonceSize:]), b[helloUse]
	for i := range h.ports {
		h.ports[i] = binary.LittleEndian.Uint16(b[helloPorts+2*i:])
	}
	return h, h.use == useControl || useProbe-int(h.use) < maxSockets
}
