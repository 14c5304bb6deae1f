package erpc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// workerAddress is what a worker tells its peers through the host.
type workerAddress struct {
	Port      []byte `json:"port"`
	Heartbeat []byte `json:"heartbeat"`
	Nonce     uint64 `json:"nonce"`
	Presence  string `json:"presence,omitempty"` // its name
}

func encodeAddress(w *worker) ([]byte, error) {
	a := workerAddress{Port: w.port.Address(), Nonce: w.nonce}
	if w.heartbeat != nil {
		a.Heartbeat = w.heartbeat.port.Address()
		a.Presence = w.heartbeat.show(w.nonce)
	}
	return json.Marshal(a)
}

func decodeAddress(b []byte) (workerAddress, error) {
	var a workerAddress
	err := json.Unmarshal(b, &a)
	if err == nil && (a.Nonce == 0 || len(a.Port) == 0) {
		err = errors.New("it has no port or no nonce")
	}
	if err != nil {
		return a, fmt.Errorf("the address is not one of this transport: %w", err)
	}
	return a, nil
}

// handshakeKey is the key of handshake packets to the worker with this nonce. Only peers that have
// the worker's address know it.
func handshakeKey(nonce uint64) uint32 { return uint32(nonce>>32) ^ uint32(nonce)*0x9e3779b1 }

// offer is the data of a hello and of a welcome: a worker's end of a session. Its fields are sent
// in this order, little endian.
type offer struct {
	Nonce      uint64 // of the worker
	Key        uint32 // for packets to it
	Number     uint16 // for packets to it
	Window     uint16
	CheckAll   uint32 // 1 if the checksum covers all of a packet
	Credits    uint32
	MaxPayload uint32
	MaxData    uint32
	First      uint32 // number of the sender's first request, a multiple of Window
}

const offerSize = 36

// encode returns the offer in offerSize bytes.
func (o *offer) encode() []byte {
	b, err := binary.Append(nil, binary.LittleEndian, o)
	if err != nil || len(b) != offerSize {
		panic("offer is not offerSize bytes of fixed-size fields")
	}
	return b
}

func (w *worker) offer(p *session) offer {
	s := w.settings
	o := offer{Nonce: w.nonce, Key: p.localKey, Number: w.firstNumber + p.localNumber,
		Window: uint16(s.window), First: p.localFirst,
		Credits: uint32(w.credits), MaxPayload: uint32(s.payload), MaxData: uint32(w.maxData)}
	if s.checkAll {
		o.CheckAll = 1
	}
	return o
}

// A hello is repeated until it is answered, at intervals that double: a peer ignores hellos until
// it connects, and then sends its own.
const (
	firstHelloInterval = 2 * time.Millisecond
	maxHelloInterval   = 200 * time.Millisecond
)

func (w *worker) hello(p *session, now int64) {
	w.sendOffer(p, kindHello)
	p.helloInterval = min(max(2*p.helloInterval, int64(firstHelloInterval)),
		int64(maxHelloInterval))
	p.helloAt = now + p.helloInterval
	w.scanAt = min(w.scanAt, p.helloAt)
}

// sendOffer sends a hello or a welcome.
func (w *worker) sendOffer(p *session, k kind) {
	o := w.offer(p)
	w.sendHandshake(p, k, o.encode())
	w.counts.handshakes++
}

// bye tells a peer that this worker is closed or has cut it off.
func (w *worker) bye(p *session) {
	if p.state == lost {
		return
	}
	var body [8]byte
	binary.LittleEndian.PutUint64(body[:], w.nonce)
	w.sendHandshake(p, kindBye, body[:])
}

// sendHandshake sends a packet that needs no established session. A packet that finds no room is
// lost; handshake packets are repeated anyway.
func (w *worker) sendHandshake(p *session, k kind, body []byte) {
	h := header{session: noSession, kind: k, size: uint32(len(body))}
	w.sendPacket(p.remote, p.handshakeKey, &h, body, body)
}

// receiveHandshake handles a packet of the handshake.
func (w *worker) receiveHandshake(h *header, packet *datagram.Packet, now int64) {
	data := packet.Data[headerSize:]
	if !validChecksum(w.key, packet.Data[:headerSize], data) {
		w.counts.corrupt++
		return
	}
	var nonce uint64
	if len(data) >= 8 {
		nonce = binary.LittleEndian.Uint64(data)
	}
	p := w.peers.Find(nonce)
	switch {
	case p == nil:
		w.counts.strangers++ // or a peer that is not connected here yet
		return
	case p.source != packet.Source:
		w.counts.forged++
		return
	case p.state == lost:
		return
	case h.kind == kindBye && len(data) == 8:
		w.lose(p, errBye)
		return
	case h.kind != kindHello && h.kind != kindWelcome || len(data) != offerSize:
		w.counts.malformed++
		return
	}
	var o offer
	_, _ = binary.Decode(data, binary.LittleEndian, &o) // fails only if data is too short
	if p.state == connecting {
		expected := w.offer(p)
		expected.Nonce, expected.Key, expected.Number, expected.Credits, expected.First = o.Nonce,
			o.Key, o.Number, o.Credits, o.First
		if o != expected || o.Credits == 0 || o.Number == noSession ||
			o.First%uint32(o.Window) != 0 {
			w.cutOff(p) // it was opened with other options
			return
		}
		w.establish(p, &o, now)
	} else if o.Number != p.remoteNumber || o.Key != p.remoteKey {
		w.counts.forged++
		return
	}
	if h.kind == kindHello {
		w.sendOffer(p, kindWelcome)
	}
}

// establish makes a session usable. The peer sent its offer, so it knows this session.
func (w *worker) establish(p *session, o *offer, now int64) {
	p.state = established
	w.connecting--
	p.remoteNumber, p.remoteKey = o.Number, o.Key
	for i := range p.serverSlots {
		p.serverSlots[i].request = o.First + uint32(i-len(p.serverSlots))
	}
	p.maxCredits = min(w.credits, int(o.Credits))
	p.credits = p.maxCredits
	if p.watch != nil {
		p.watch.up.Store(true)
	}
	w.pump(p, now)
}

// abandon marks a peer as lost that never answered the handshake, and sends it a bye in case it is
// alive.
func (w *worker) abandon(p *session) {
	w.counts.abandoned++
	w.bye(p)
	w.lose(p, fmt.Errorf("no answer from %v for %v (connect-timeout)", p.source,
		time.Duration(w.settings.connectTimeout)))
}

// errBye: the peer's worker closed, or cut this one off.
var errBye = errors.New("the peer has ended the connection")

// lose marks a peer as lost. The next Poll reports it.
func (w *worker) lose(p *session, reason error) {
	if p.state == lost {
		return
	}
	p.loss = reason
	if p.state == connecting {
		w.connecting--
	}
	p.state = lost
	w.peers.Shut(p.id)
	for i := range p.slots {
		w.stopAwaiting(&p.slots[i])
	}
	w.lostPeers.Add(p.id)
}

// cutOff marks a peer as lost that violates the protocol. A later Poll returns ErrCorrupt.
func (w *worker) cutOff(p *session) {
	if p.state == lost {
		return
	}
	w.bye(p)
	w.lose(p, transport.ErrCorrupt)
	w.corrupt = append(w.corrupt, p)
}
