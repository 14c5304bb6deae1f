package tcpx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
)

// nonceSize is the bytes of a nonce. Only workers that have a worker's address know its
// nonce.
const nonceSize = 16

type nonce [nonceSize]byte

// address is what a worker tells its peers about itself.
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

func (s *settings) announce(own nonce, at netip.AddrPort, dataPort uint16) address {
	return address{Nonce: own[:], At: at, DataPort: dataPort, Mode: s.mode.name, Sockets: s.sockets, Chunk: s.chunk,
		Request: s.request, Window: s.receiveWindow, InFlight: s.inFlight, Payload: s.payload}
}

// decodeAddress reads a peer's address and refuses one that does not fit this side.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != nonceSize || !a.At.IsValid() || a.DataPort == 0 {
		return a, fmt.Errorf("not an address of this transport: %.40q", encoded)
	}
	for _, field := range []struct {
		option     string
		own, peers int
	}{
		{"sockets", s.sockets, a.Sockets},
		{"chunk", s.chunk, a.Chunk},
		{"request", s.request, a.Request},
	} {
		if field.own != field.peers {
			return a, refuse(field.option, "%d here, and the peer has announced %d; set the same on all ranks", field.own, field.peers)
		}
	}
	switch {
	case a.Window < 1 || a.Window > requests:
		return a, fmt.Errorf("the peer has announced a window of %d receives, which is out of range (1 to %d)", a.Window, requests)
	case a.InFlight != s.inFlight:
		return a, fmt.Errorf("the peer was opened for %d calls in flight, this side for %d", a.InFlight, s.inFlight)
	case a.Payload != s.payload:
		return a, fmt.Errorf("the peer was opened for payloads of %d bytes, this side for %d", a.Payload, s.payload)
	case a.At.Addr().Is4() != s.sock.Address.Is4():
		return a, refuse("address", "%s cannot reach the peer's %s: one is IPv4, the other IPv6", s.sock.Address, a.At.Addr())
	}
	return a, nil
}

// hello is what the dialling side sends first on a control socket and on the sockets of
// a probe:
//
//	magic u64 | nonce of the accepting worker | nonce of the dialling one | use u8 | 7 zero bytes |
//	16 ports u16: the local ports of the connection's data sockets in order, then zeros
//
// A data socket carries no hello: the NIC puts everything on it where payloads go.
type hello struct {
	from  nonce
	use   uint8
	ports [maxSockets]uint16 // on control sockets only
}

const (
	helloUse   = 8 + 2*nonceSize
	helloPorts = helloUse + 8
	helloSize  = helloPorts + 2*maxSockets
	helloMagic = 0x32787063_74627274 // "trbtcpx2"
)

// Values of hello.use. Socket i of a probe has useProbe - i.
const (
	useControl = 0
	useProbe   = 255
)

func (h *hello) encode(to nonce) []byte {
	b := make([]byte, helloSize)
	binary.LittleEndian.PutUint64(b, helloMagic)
	copy(b[8:], to[:])
	copy(b[8+nonceSize:], h.from[:])
	b[helloUse] = h.use
	for i, port := range h.ports {
		binary.LittleEndian.PutUint16(b[helloPorts+2*i:], port)
	}
	return b
}

// decodeHello reads a hello. ok is false if it is malformed or for another worker.
func decodeHello(b []byte, to nonce) (h hello, ok bool) {
	if len(b) != helloSize || binary.LittleEndian.Uint64(b) != helloMagic || !bytes.Equal(b[8:8+nonceSize], to[:]) {
		return h, false
	}
	h.from, h.use = nonce(b[8+nonceSize:]), b[helloUse]
	for i := range h.ports {
		h.ports[i] = binary.LittleEndian.Uint16(b[helloPorts+2*i:])
	}
	return h, h.use == useControl || useProbe-int(h.use) < maxSockets
}
