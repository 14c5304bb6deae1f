//go:build ibverbs

package ibverbs

/*
#cgo pkg-config: libibverbs
#cgo CFLAGS: -O2 -Wall -Wextra
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What PostSend finds wrong with a request, beside errno.
const (
	BadInline   = C.TB_INLINE
	BadOpcode   = C.TB_OPCODE
	BadPeer     = C.TB_PEER
	BadDatagram = C.TB_DATAGRAM
)

// Devices lists the names of the devices of this machine.
func Devices() ([]string, error) {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return nil, fmt.Errorf("ibv_get_device_list: %w", err)
	}
	defer C.ibv_free_device_list(list)
	var names []string
	for _, d := range unsafe.Slice(list, int(n)) {
		names = append(names, C.GoString(C.ibv_get_device_name(d)))
	}
	return names, nil
}

// Context is an open device.
type Context struct {
	context *C.struct_ibv_context
	pd      *C.struct_ibv_pd
}

// Limits are those of a device.
type Limits struct{ Pairs, Depth, Shared, Completions, Reads, Ports int }

// Open opens a device by its name.
func Open(name string) (*Context, error) {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return nil, fmt.Errorf("ibv_get_device_list: %w", err)
	}
	defer C.ibv_free_device_list(list)
	for _, d := range unsafe.Slice(list, int(n)) {
		if C.GoString(C.ibv_get_device_name(d)) != name {
			continue
		}
		context, err := C.ibv_open_device(d)
		if context == nil {
			return nil, fmt.Errorf("ibv_open_device: %w", err)
		}
		pd, err := C.ibv_alloc_pd(context)
		if pd == nil {
			C.ibv_close_device(context)
			return nil, fmt.Errorf("ibv_alloc_pd: %w", err)
		}
		return &Context{context, pd}, nil
	}
	return nil, unix.ENODEV
}

// Close closes the device; everything made of it is gone before.
func (c *Context) Close() error {
	if code := C.ibv_dealloc_pd(c.pd); code != 0 {
		return fmt.Errorf("ibv_dealloc_pd: %w", unix.Errno(code))
	}
	if code, err := C.ibv_close_device(c.context); code != 0 {
		return fmt.Errorf("ibv_close_device: %w", err)
	}
	return nil
}

// Limits asks the device.
func (c *Context) Limits() (Limits, error) {
	var a C.struct_ibv_device_attr
	if code := C.ibv_query_device(c.context, &a); code != 0 {
		return Limits{}, fmt.Errorf("ibv_query_device: %w", unix.Errno(code))
	}
	return Limits{Pairs: int(a.max_qp), Depth: int(a.max_qp_wr), Shared: int(a.max_srq_wr), Completions: int(a.max_cqe),
		Reads: int(min(a.max_qp_rd_atom, a.max_qp_init_rd_atom)), Ports: int(a.phys_port_cnt)}, nil
}

// Port is the state of a port.
type Port struct {
	Active     bool
	State      string
	Ethernet   bool
	MTU        int
	LID        uint16
	MaxMessage int
	GIDs       int // entries of its table
}

// Port asks for a port's state.
func (c *Context) Port(number int) (Port, error) {
	var a C.struct_ibv_port_attr
	if code := C.tb_query_port(c.context, C.uint8_t(number), &a); code != 0 {
		return Port{}, fmt.Errorf("ibv_query_port: %w", unix.Errno(code))
	}
	return Port{Active: a.state == C.IBV_PORT_ACTIVE, State: C.GoString(C.ibv_port_state_str(a.state)),
		Ethernet: a.link_layer == C.IBV_LINK_LAYER_ETHERNET, MTU: 128 << a.active_mtu, LID: uint16(a.lid),
		MaxMessage: int(a.max_msg_sz), GIDs: int(a.gid_tbl_len)}, nil
}

// GID is an entry of a GID table.
type GID struct {
	Port, Index int
	Version2    bool // RoCE version 2
	Raw         [16]byte
}

// GIDs lists the entries in use, of all ports.
func (c *Context) GIDs(ports int) ([]GID, error) {
	entries := make([]C.struct_ibv_gid_entry, 256*ports)
	n, err := C.tb_query_gids(c.context, &entries[0], C.size_t(len(entries)))
	if n < 0 {
		return nil, fmt.Errorf("ibv_query_gid_table: %w", err)
	}
	var gids []GID
	for _, e := range entries[:n] {
		gids = append(gids, GID{Port: int(e.port_num), Index: int(e.gid_index),
			Version2: e.gid_type == C.IBV_GID_TYPE_ROCE_V2, Raw: *(*[16]byte)(unsafe.Pointer(&e.gid))})
	}
	return gids, nil
}

// Memory is registered memory.
type Memory struct {
	mr                  *C.struct_ibv_mr
	LocalKey, RemoteKey uint32
	Address             uint64
}

// Register registers memory outside the Go heap. Bits of access are those of
// ibv_access_flags; local writes are always allowed.
func (c *Context) Register(memory []byte, access uint32) (*Memory, error) {
	p := unsafe.Pointer(unsafe.SliceData(memory))
	mr, err := C.tb_register(c.pd, p, C.size_t(len(memory)), C.int(access|C.IBV_ACCESS_LOCAL_WRITE))
	if mr == nil {
		return nil, err
	}
	return &Memory{mr: mr, LocalKey: uint32(mr.lkey), RemoteKey: uint32(mr.rkey), Address: uint64(uintptr(p))}, nil
}

// Deregister ends the registration.
func (m *Memory) Deregister() error {
	if code := C.ibv_dereg_mr(m.mr); code != 0 {
		return fmt.Errorf("ibv_dereg_mr: %w", unix.Errno(code))
	}
	return nil
}

// CQ is a completion queue, and which cookie belongs to which of its queue pairs.
type CQ struct {
	cq      *C.struct_tb_cq
	channel *C.struct_ibv_comp_channel
	cookies map[uint32]uint32
}

// NewCQ makes a completion queue of at least that many entries, with a completion
// channel that does not block.
func (c *Context) NewCQ(entries int) (*CQ, error) {
	channel, err := C.ibv_create_comp_channel(c.context)
	if channel == nil {
		return nil, fmt.Errorf("ibv_create_comp_channel: %w", err)
	}
	if err := unix.SetNonblock(int(channel.fd), true); err != nil {
		C.ibv_destroy_comp_channel(channel)
		return nil, fmt.Errorf("completion channel: %w", err)
	}
	cq, err := C.ibv_create_cq(c.context, C.int(entries), nil, channel, 0)
	if cq == nil {
		C.ibv_destroy_comp_channel(channel)
		return nil, fmt.Errorf("ibv_create_cq of %d entries: %w", entries, err)
	}
	q := &CQ{cq: (*C.struct_tb_cq)(C.calloc(1, C.sizeof_struct_tb_cq)), channel: channel, cookies: map[uint32]uint32{}}
	q.cq.cq = cq
	q.rebuild()
	return q, nil
}

// Channel is the descriptor that can be read after the next completion, once Notify
// has asked for that.
func (q *CQ) Channel() int { return int(q.channel.fd) }

// Notify asks for an event with the next completion.
func (q *CQ) Notify() error {
	if code := C.tb_notify(q.cq.cq); code != 0 {
		return fmt.Errorf("ibv_req_notify_cq: %w", unix.Errno(code))
	}
	return nil
}

// Clear takes the channel's events.
func (q *CQ) Clear() { C.tb_clear(q.channel) }

// rebuild makes the table that tb_poll looks at.
func (q *CQ) rebuild() {
	places := 8
	for places < 2*len(q.cookies)+2 {
		places *= 2
	}
	C.free(unsafe.Pointer(q.cq.cookies))
	q.cq.cookies = (*C.struct_tb_cookie)(C.calloc(C.size_t(places), C.sizeof_struct_tb_cookie))
	q.cq.mask = C.uint32_t(places - 1)
	table := unsafe.Slice(q.cq.cookies, places)
	for number, cookie := range q.cookies {
		i := number * 2654435769 // as in cookie_of
		for table[i&uint32(places-1)].number != 0 {
			i++
		}
		table[i&uint32(places-1)] = C.struct_tb_cookie{C.uint32_t(number), C.uint32_t(cookie)}
	}
}

// Close destroys the queue.
func (q *CQ) Close() error {
	if code := C.ibv_destroy_cq(q.cq.cq); code != 0 {
		return fmt.Errorf("ibv_destroy_cq: %w", unix.Errno(code))
	}
	C.free(unsafe.Pointer(q.cq.cookies))
	C.free(unsafe.Pointer(q.cq))
	if code := C.ibv_destroy_comp_channel(q.channel); code != 0 {
		return fmt.Errorf("ibv_destroy_comp_channel: %w", unix.Errno(code))
	}
	return nil
}

// SRQ is a shared receive queue.
type SRQ struct{ srq *C.struct_ibv_srq }

// NewSRQ makes a shared receive queue of at least that many receives.
func (c *Context) NewSRQ(receives int) (*SRQ, error) {
	var a C.struct_ibv_srq_init_attr
	a.attr.max_wr = C.uint32_t(receives)
	a.attr.max_sge = 1
	srq, err := C.ibv_create_srq(c.pd, &a)
	if srq == nil {
		return nil, fmt.Errorf("ibv_create_srq of %d receives: %w", receives, err)
	}
	return &SRQ{srq}, nil
}

// Close destroys the queue.
func (s *SRQ) Close() error {
	if code := C.ibv_destroy_srq(s.srq); code != 0 {
		return fmt.Errorf("ibv_destroy_srq: %w", unix.Errno(code))
	}
	return nil
}

// PairConfig is what a queue pair is made of.
type PairConfig struct {
	Datagrams                        bool
	CQ                               *CQ
	SRQ                              *SRQ // nil for receives of its own
	Send, Receive, Inline, MTU, Port int
	Cookie, QKey                     uint32
}

// Pair is a queue pair.
type Pair struct {
	pair   *C.struct_tb_pair
	cq     *CQ
	pd     *C.struct_ibv_pd
	Number uint32
	Inline int // granted
}

// NewPair makes a queue pair; RC stays in INIT, UD is ready.
func (c *Context) NewPair(o PairConfig) (*Pair, error) {
	var a C.struct_ibv_qp_init_attr
	a.send_cq, a.recv_cq = o.CQ.cq.cq, o.CQ.cq.cq
	a.qp_type = C.IBV_QPT_RC
	if o.Datagrams {
		a.qp_type = C.IBV_QPT_UD
	}
	a.cap.max_send_wr, a.cap.max_send_sge = C.uint32_t(o.Send), 1
	a.cap.max_inline_data = C.uint32_t(o.Inline)
	if o.SRQ != nil {
		a.srq = o.SRQ.srq
	} else {
		a.cap.max_recv_wr, a.cap.max_recv_sge = C.uint32_t(o.Receive), 1
	}
	qp, err := C.ibv_create_qp(c.pd, &a)
	if qp == nil {
		return nil, err
	}
	p := &Pair{pair: (*C.struct_tb_pair)(C.calloc(1, C.sizeof_struct_tb_pair)), cq: o.CQ, pd: c.pd,
		Number: uint32(qp.qp_num), Inline: int(a.cap.max_inline_data)}
	p.pair.qp = qp
	p.pair.max_inline = a.cap.max_inline_data
	if o.Datagrams {
		p.pair.max_datagram = C.uint32_t(o.MTU)
	}
	o.CQ.cookies[p.Number] = o.Cookie
	o.CQ.rebuild()
	code := C.tb_init(qp, C.uint8_t(o.Port), C.uint32_t(o.QKey))
	if code == 0 && o.Datagrams {
		code = C.tb_ready_datagrams(qp)
	}
	if code != 0 {
		_ = p.Close()
		return nil, fmt.Errorf("ibv_modify_qp: %w", unix.Errno(code))
	}
	return p, nil
}

// Path is how an RC queue pair reaches its peer. MTU is its code.
type Path struct {
	Port, MTU, GIDIndex                                     int
	Global                                                  bool
	GID                                                     [16]byte
	LID                                                     uint16
	Number, Sequence, Own                                   uint32
	Timeout, Retries, NotReadyRetries, NotReadyTimer, Reads int
}

// Connect takes an RC queue pair to RTS.
func (p *Pair) Connect(o Path) error {
	path := C.struct_tb_path{port: C.uint8_t(o.Port), mtu: C.uint8_t(o.MTU), gid_index: C.uint8_t(o.GIDIndex), lid: C.uint16_t(o.LID),
		number: C.uint32_t(o.Number), sequence: C.uint32_t(o.Sequence), own_sequence: C.uint32_t(o.Own),
		timeout: C.uint8_t(o.Timeout), retries: C.uint8_t(o.Retries), not_ready_retries: C.uint8_t(o.NotReadyRetries),
		not_ready_timer: C.uint8_t(o.NotReadyTimer), reads: C.uint8_t(o.Reads)}
	if o.Global {
		path.global = 1
	}
	for i, b := range o.GID {
		path.gid[i] = C.uint8_t(b)
	}
	if code := C.tb_connect(p.pair.qp, &path); code != 0 {
		return fmt.Errorf("ibv_modify_qp: %w", unix.Errno(code))
	}
	return nil
}

// AddPeer gives a UD queue pair a peer, and returns its place.
func (p *Pair) AddPeer(o Path, qkey uint32) (uint32, error) {
	gid, global := [16]C.uint8_t{}, C.int(0)
	for i, b := range o.GID {
		gid[i] = C.uint8_t(b)
	}
	if o.Global {
		global = 1
	}
	ah, err := C.tb_address_handle(p.pd, C.uint8_t(o.Port), C.uint16_t(o.LID), global, &gid[0], C.uint8_t(o.GIDIndex))
	if ah == nil {
		return 0, fmt.Errorf("ibv_create_ah: %w", err)
	}
	n := p.pair.peer_count
	p.pair.peers = (*C.struct_tb_peer)(C.realloc(unsafe.Pointer(p.pair.peers), C.size_t(n+1)*C.sizeof_struct_tb_peer))
	unsafe.Slice(p.pair.peers, int(n)+1)[n] = C.struct_tb_peer{ah: ah, number: C.uint32_t(o.Number), qkey: C.uint32_t(qkey)}
	p.pair.peer_count++
	return uint32(n), nil
}

// Close destroys the queue pair and its address handles.
func (p *Pair) Close() error {
	if code := C.ibv_destroy_qp(p.pair.qp); code != 0 {
		return fmt.Errorf("ibv_destroy_qp: %w", unix.Errno(code))
	}
	for _, peer := range unsafe.Slice(p.pair.peers, int(p.pair.peer_count)) {
		C.ibv_destroy_ah(peer.ah)
	}
	delete(p.cq.cookies, p.Number)
	p.cq.rebuild()
	C.free(unsafe.Pointer(p.pair.peers))
	C.free(unsafe.Pointer(p.pair))
	return nil
}
