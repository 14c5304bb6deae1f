package tcpx

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"transportbench/core/fabric/dial"
)

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

func (s *settings) announce(own dial.Nonce, at netip.AddrPort, data []netip.AddrPort) address {
	return address{Nonce: own[:], At: at, Data: data, Mode: s.memory.Mode(), Sockets: s.sockets,
		Chunk:   s.chunk,
		Request: s.request, Window: s.receiveWindow, Inline: s.inline, InFlight: s.inFlight,
		Payload: s.payload}
}

// decodeAddress reads a peer's address and refuses one that does not fit this side.
func (s *settings) decodeAddress(encoded []byte) (a address, err error) {
	err = json.Unmarshal(encoded, &a)
	if err != nil || len(a.Nonce) != dial.NonceSize || !a.At.IsValid() || !a.hasData() {
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
