package tcpx

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// nonceSize is the bytes of a nonce. Only workers that have a worker's address know its
// nonce.
const nonceSize = 16

type nonce [nonceSize]byte

// address is what a worker tells its peers about itself.
type address struct {
	Nonce []byte         `json:"nonce"`
	At    netip.AddrPort `json:"at"` // of control sockets and probes
	// Data has the addresses of data sockets: socket i arrives at number i modulo their number.
	Data     []netip.AddrPort `json:"data"`
	Mode     string           `json:"mode"`
	Sockets  int              `json:"sockets"`
	Chunk    int              `json:"chunk"`
	Request  int              `json:"request"`
	Window   int              `json:"window"` // of receives
	Inline   int              `json:"inline"` // bytes of the largest message on the control socket
	InFlight int              `json:"in_flight"`
	Payload  int              `json:"payload"`
}

func (s *settings) announce(own nonce, at netip.AddrPort, data []netip.AddrPort) address {
	return address{Nonce: own[:], At: at, Data: data, Mode: s.mode.name, Sockets: s.sockets,
		Chunk:   s.chunk,
		Request: s.request, Window: s.receiveWindow, Inline: s.inline, InFlight: s.inFlight,
		Payload: s.payload}
}

// decodeAddress reads a peer's address and refuses one that does not fit this side.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	if err := json.Unmarshal(encoded, &a); err != nil || len(a.Nonce) != nonceSize ||
		!a.At.IsValid() || !a.hasData() {
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
			return a, refuse(field.option,
				"%d here, and the peer has announced %d; set the same on all ranks", field.own,
				field.peers)
		}
	}
	switch {
	case a.Window < 1 || a.Window > requests:
		return a,
			fmt.Errorf(
				"the peer has announced a window of %d receives, which is out of range (1 to %d)",
				a.Window, requests)
	case a.InFlight != s.inFlight:
		return a, fmt.Errorf("the peer was opened for %d calls in flight, this side for %d; use "+
			"the same on all ranks", a.InFlight, s.inFlight)
	case a.Payload != s.payload:
		return a, fmt.Errorf("the peer was opened for payloads of %d bytes, this side for %d; "+
			"use the same on all ranks", a.Payload, s.payload)
	case len(a.Data) != len(s.data):
		return a, refuse("more-addresses", "data sockets have %d addresses here, and the peer "+
			"has announced %d; give as many on all ranks", len(s.data), len(a.Data))
	case a.At.Addr().Is4() != s.sock.Address.Is4():
		return a, refuse("address", "%s cannot reach the peer's %s: one is IPv4, the other IPv6",
			s.sock.Address, a.At.Addr())
	}
	return a, nil
}

// hasData reports whether data sockets have addresses of the kind of the control sockets'.
func (a *address) hasData() bool {
	return len(a.Data) > 0 && !slices.ContainsFunc(a.Data, func(at netip.AddrPort) bool {
		return !at.IsValid() || at.Port() == 0 || at.Addr().Is4() != a.At.Addr().Is4()
	})
}

// dataAddress returns where data socket i arrives.
func (a *address) dataAddress(i int) netip.AddrPort { return a.Data[i%len(a.Data)] }

// hello is what the dialling side sends first on a control socket and on the sockets of a
// probe, little-endian. A data socket carries no hello: the NIC puts everything on it where
// payloads go.
type hello struct {
	Magic    uint64
	To, From nonce // of the accepting and the dialling worker
	Use      uint8
	_        uint8
	// Port is the local port of the socket, so that nobody else can use the hello again.
	Port uint16
	_    [4]byte
	// Ports are the local ports of the connection's data sockets in order, then zeros. Only
	// control sockets have them.
	Ports [maxSockets]uint16
}

const helloMagic = 0x33787063_74627274 // "trbtcpx3"

// Values of hello.Use.
const (
	useControl = 0
	useProbe   = 255
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
func decodeHello(b []byte, to nonce, port uint16) (h hello, ok bool) {
	if _, err := binary.Decode(b, binary.LittleEndian, &h); err != nil || len(b) != helloSize {
		return h, false
	}
	return h, h.Magic == helloMagic && h.To == to && h.Port == port &&
		(h.Use == useControl || h.Use == useProbe)
}
