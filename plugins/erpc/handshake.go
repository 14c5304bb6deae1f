package erpc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"transportbench/core/fabric/datagram"
)

// workerAddress is what a worker tells its peers through the host.
type workerAddress struct {
	Port      []byte `json:"port"`
	Heartbeat []byte `json:"heartbeat"`
	Nonce     uint64 `json:"nonce"`
}

func encodeAddress(w *worker) ([]byte, error) {
	a := workerAddress{Port: w.port.Address(), Nonce: w.nonce}
	if w.heartbeat != nil {
		a.Heartbeat = w.heartbeat.port.Address()
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

// offer is the data of a hello and of a welcome: a worker's end of a session.
type offer struct {
	nonce      uint64 // of the worker
	key        uint32 // for packets to it
	number     uint16 // for packets to it
	window     uint16
	checkAll   uint32 // 1 if the checksum covers all of a packet
	credits    uint32
	maxPayload uint32
	maxData    uint32
}

const offerSize = 32

func (o *offer) put(b *[offerSize]byte) {
	binary.LittleEndian.PutUint64(b[0:], o.nonce)
	binary.LittleEndian.PutUint32(b[8:], o.key)
	binary.LittleEndian.PutUint16(b[12:], o.number)
	binary.LittleEndian.PutUint16(b[14:], o.window)
	binary.LittleEndian.PutUint32(b[16:], o.checkAll)
	binary.LittleEndian.PutUint32(b[20:], o.credits)
	binary.LittleEndian.PutUint32(b[24:], o.maxPayload)
	binary.LittleEndian.PutUint32(b[28:], o.maxData)
}

func parseOffer(b *[offerSize]byte) offer {
	return offer{
		nonce: binary.LittleEndian.Uint64(b[0:]), key: binary.LittleEndian.Uint32(b[8:]), number: binary.LittleEndian.Uint16(b[12:]),
		window: binary.LittleEndian.Uint16(b[14:]), checkAll: binary.LittleEndian.Uint32(b[16:]), credits: binary.LittleEndian.Uint32(b[20:]),
		maxPayload: binary.LittleEndian.Uint32(b[24:]), maxData: binary.LittleEndian.Uint32(b[28:]),
	}
}

func (w *worker) offer(p *session) offer {
	s := w.settings
	o := offer{nonce: w.nonce, key: p.localKey, number: p.localNumber, window: uint16(s.window), credits: uint32(w.credits),
		maxPayload: uint32(s.payload), maxData: uint32(w.maxData)}
	if s.checkAll {
		o.checkAll = 1
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
	p.helloInterval = min(max(2*p.helloInterval, int64(firstHelloInterval)), int64(maxHelloInterval))
	p.helloAt = now + p.helloInterval
	w.scanAt = min(w.scanAt, p.helloAt)
}

// sendOffer sends a hello or a welcome.
func (w *worker) sendOffer(p *session, k kind) {
	o := w.offer(p)
	var body [offerSize]byte
	o.put(&body)
	w.sendHandshake(p, k, body[:])
	w.counts.handshakes++
}

// bye tells a peer that this worker is closed.
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
	if !validChecksum(w.key, packet.Data, len(packet.Data)) {
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
		w.lose(p)
		return
	case h.kind != kindHello && h.kind != kindWelcome || len(data) != offerSize:
		w.counts.malformed++
		return
	}
	o := parseOffer((*[offerSize]byte)(data))
	if p.state == connecting {
		own := w.offer(p)
		if o.window != own.window || o.checkAll != own.checkAll || o.maxPayload != own.maxPayload || o.maxData != own.maxData ||
			o.credits == 0 || o.number >= maxPeers {
			w.cutOff(p) // it was opened with other options
			return
		}
		w.establish(p, &o, now)
	} else if o.number != p.remoteNumber || o.key != p.remoteKey {
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
	p.remoteNumber, p.remoteKey = o.number, o.key
	p.maxCredits = min(w.credits, int(o.credits))
	p.credits = p.maxCredits
	if p.watch != nil {
		p.watch.up.Store(true)
	}
	w.pump(p, now)
}

// abandon gives up on a peer that never answered the handshake, and tells it so in case it is
// alive.
func (w *worker) abandon(p *session) {
	w.counts.abandoned++
	w.bye(p)
	w.lose(p)
}

// lose marks a peer as lost. The next Poll reports it.
func (w *worker) lose(p *session) {
	if p.state == lost {
		return
	}
	if p.state == connecting {
		w.connecting--
	}
	p.state = lost
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
	w.lose(p)
	w.corrupt = append(w.corrupt, p)
}
