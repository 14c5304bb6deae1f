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
	Port  []byte `json:"port"`
	Heart []byte `json:"heart"`
	Nonce uint64 `json:"nonce"`
}

func encodeAddress(w *worker) ([]byte, error) {
	a := workerAddress{Port: w.port.Address(), Nonce: w.nonce}
	if w.heart != nil {
		a.Heart = w.heart.port.Address()
	}
	return json.Marshal(a)
}

func decodeAddress(b []byte) (workerAddress, error) {
	var a workerAddress
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("the address is not one of this transport: %w", err)
	}
	if a.Nonce == 0 || len(a.Port) == 0 {
		return a, errors.New("the address is not one of this transport")
	}
	return a, nil
}

// greeting is the key of handshake packets to a worker. Who does not have the worker's
// address does not know it.
func greeting(nonce uint64) uint32 { return uint32(nonce>>32) ^ uint32(nonce)*0x9e3779b1 }

// offer is the data of a hello and of a welcome: what a worker tells of its end of a
// session.
type offer struct {
	nonce   uint64 // of the worker
	key     uint32 // for packets to it
	number  uint16 // for packets to it
	window  uint16
	check   uint32 // 1 where it covers all of a packet
	credits uint32
	payload uint32
	unit    uint32
}

const offerSize = 32

func (o *offer) put(b *[offerSize]byte) {
	binary.LittleEndian.PutUint64(b[0:], o.nonce)
	binary.LittleEndian.PutUint32(b[8:], o.key)
	binary.LittleEndian.PutUint16(b[12:], o.number)
	binary.LittleEndian.PutUint16(b[14:], o.window)
	binary.LittleEndian.PutUint32(b[16:], o.check)
	binary.LittleEndian.PutUint32(b[20:], o.credits)
	binary.LittleEndian.PutUint32(b[24:], o.payload)
	binary.LittleEndian.PutUint32(b[28:], o.unit)
}

func parseOffer(b *[offerSize]byte) offer {
	return offer{
		nonce: binary.LittleEndian.Uint64(b[0:]), key: binary.LittleEndian.Uint32(b[8:]), number: binary.LittleEndian.Uint16(b[12:]),
		window: binary.LittleEndian.Uint16(b[14:]), check: binary.LittleEndian.Uint32(b[16:]), credits: binary.LittleEndian.Uint32(b[20:]),
		payload: binary.LittleEndian.Uint32(b[24:]), unit: binary.LittleEndian.Uint32(b[28:]),
	}
}

// A hello that was not answered is said again after a while, which doubles: a peer that
// has not connected yet does not listen, and says hello itself when it does.
const (
	helloFirst = 2 * time.Millisecond
	helloMost  = 200 * time.Millisecond
)

// hello begins a session, or tries again.
func (w *worker) hello(p *session, now int64) {
	w.say(p, kindHello)
	p.helloAfter = min(max(2*p.helloAfter, int64(helloFirst)), int64(helloMost))
	p.helloAt = now + p.helloAfter
	w.scanAt = min(w.scanAt, p.helloAt)
}

// say sends a packet of the handshake.
func (w *worker) say(p *session, k kind) {
	o := w.offer(p)
	var body [offerSize]byte
	o.put(&body)
	w.greet(p, k, body[:])
	w.counts.handshakes++
}

func (w *worker) offer(p *session) offer {
	s := w.settings
	o := offer{nonce: w.nonce, key: p.key, number: p.number, window: uint16(s.window), credits: uint32(w.credits),
		payload: uint32(s.payload), unit: uint32(w.unit)}
	if s.checkAll {
		o.check = 1
	}
	return o
}

// bye tells a peer that this worker is closed.
func (w *worker) bye(p *session) {
	if p.state == lost {
		return
	}
	var body [8]byte
	binary.LittleEndian.PutUint64(body[:], w.nonce)
	w.greet(p, kindBye, body[:])
}

// greet sends a packet that does not need a connection.
func (w *worker) greet(p *session, k kind, body []byte) {
	h := header{session: noSession, kind: k, size: uint32(len(body))}
	h.put(&w.head)
	sealPacket(p.greet, &w.head, body)
	if w.port.Send(p.remote, w.head[:], body) {
		w.pending = true
		return
	}
	// A full batch or device costs a packet that is sent again anyway.
	_ = w.port.Flush()
	w.pending = w.port.Send(p.remote, w.head[:], body)
}

// noSession is the number in packets of the handshake.
const noSession = 1<<16 - 1

// greeted takes a packet of the handshake.
func (w *worker) greeted(h *header, packet *datagram.Packet, now int64) {
	data := packet.Data[headerSize:]
	if !sound(w.key, packet.Data, len(packet.Data)) {
		w.counts.corrupt++
		return
	}
	var nonce uint64
	if len(data) >= 8 {
		nonce = binary.LittleEndian.Uint64(data)
	}
	p := w.byNonce[nonce]
	switch {
	case p == nil:
		w.counts.strangers++ // or a peer that has not been connected here yet
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
		mine := w.offer(p)
		if o.window != mine.window || o.check != mine.check || o.payload != mine.payload || o.unit != mine.unit ||
			o.credits == 0 || o.number >= maxPeers {
			w.corrupted(p) // it was opened with other options, and so is none to talk to
			return
		}
		w.bringUp(p, &o, now)
	} else if o.number != p.there || o.key != p.thereKey {
		w.counts.forged++
		return
	}
	if h.kind == kindHello {
		w.say(p, kindWelcome)
	}
}

// bringUp makes a session usable: the peer has told how to reach its end of it, and so
// knows this one.
func (w *worker) bringUp(p *session, o *offer, now int64) {
	p.state = up
	w.missing--
	p.there, p.thereKey = o.number, o.key
	p.total = min(w.credits, int(o.credits))
	p.credits = p.total
	if p.watch != nil {
		p.watch.up.Store(true)
	}
	w.pump(p, now)
}

// giveUp takes a peer for lost that was connected to and never answered, and says so in
// case that it comes yet.
func (w *worker) giveUp(p *session) {
	w.counts.abandoned++
	w.bye(p)
	w.lose(p)
}

// lose takes a peer for lost.
func (w *worker) lose(p *session) {
	if p.state == lost {
		return
	}
	if p.state == connecting {
		w.missing--
	}
	p.state = lost
	for i := range p.slots {
		w.deactivate(&p.slots[i])
	}
	w.gone = append(w.gone, p)
}

// corrupted cuts a peer off.
func (w *worker) corrupted(p *session) {
	if p.state == lost {
		return
	}
	w.bye(p)
	w.lose(p)
	w.broken = append(w.broken, p)
}

// tellLost tells of lost peers.
func (w *worker) tellLost(events []transport.Event) (n int) {
	for n < len(events) && len(w.gone) > 0 {
		last := len(w.gone) - 1
		p := w.gone[last]
		events[n] = transport.Event{Kind: transport.EventPeerLost, Peer: p.id}
		w.gone = w.gone[:last]
		w.told = append(w.told, p)
		n++
	}
	return n
}
