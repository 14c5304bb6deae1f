//go:build ibverbs

package ibverbs

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/pow2"
)

// Codes with which PostSend refuses a request, besides errno values.
const (
	BadInline   = C.TB_INLINE
	BadOpcode   = C.TB_OPCODE
	BadPeer     = C.TB_PEER
	BadDatagram = C.TB_DATAGRAM
	BadAtomic   = C.TB_ATOMIC
)

// Load opens libibverbs, once. It must have returned nil before any other call.
var Load = sync.OnceValue(func() error { return load("libibverbs.so.1") })

func load(file string) error {
	name := C.CString(file)
	defer C.free(unsafe.Pointer(name))
	if reason := C.tb_load_verbs(name); reason != nil {
		return fmt.Errorf("%s; install libibverbs1 and ibverbs-providers", C.GoString(reason))
	}
	return nil
}

// check returns an error if a verbs call has returned an errno.
func check(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", call, unix.Errno(code))
}

// forEachDevice calls f for the devices of this machine until it returns false. The device
// is valid only during the call.
func forEachDevice(f func(*C.struct_ibv_device) bool) error {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return fmt.Errorf("ibv_get_device_list: %w", err)
	}
	defer C.ibv_free_device_list(list)
	for _, d := range unsafe.Slice(list, int(n)) {
		if !f(d) {
			break
		}
	}
	return nil
}

// Devices returns the names of the devices of this machine.
func Devices() (names []string, err error) {
	err = forEachDevice(func(d *C.struct_ibv_device) bool {
		names = append(names, C.GoString(C.ibv_get_device_name(d)))
		return true
	})
	return names, err
}

// Context is an open device with a protection domain.
type Context struct {
	context *C.struct_ibv_context
	pd      *C.struct_ibv_pd
}

// Limits are the limits of a device.
type Limits struct {
	Pairs, Depth, Shared, Completions, Reads, Ports int
	Atomics                                         bool
}

// Open opens the device with this name.
func Open(name string) (c *Context, err error) {
	err = unix.ENODEV
	listed := forEachDevice(func(d *C.struct_ibv_device) bool {
		if C.GoString(C.ibv_get_device_name(d)) != name {
			return true
		}
		c, err = open(d)
		return false
	})
	if listed != nil {
		return nil, listed
	}
	return c, err
}

func open(d *C.struct_ibv_device) (*Context, error) {
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

// Close closes the device. Everything that was made of it must be closed before.
func (c *Context) Close() error {
	if err := check("ibv_dealloc_pd", C.ibv_dealloc_pd(c.pd)); err != nil {
		return err
	}
	if code, err := C.ibv_close_device(c.context); code != 0 {
		return fmt.Errorf("ibv_close_device: %w", err)
	}
	return nil
}

// Limits returns the limits of the device.
func (c *Context) Limits() (Limits, error) {
	var a C.struct_ibv_device_attr
	if err := check("ibv_query_device", C.ibv_query_device(c.context, &a)); err != nil {
		return Limits{}, err
	}
	return Limits{Pairs: int(a.max_qp), Depth: int(a.max_qp_wr), Shared: int(a.max_srq_wr),
		Completions: int(a.max_cqe),
		Reads:       int(min(a.max_qp_rd_atom, a.max_qp_init_rd_atom)), Ports: int(a.phys_port_cnt),
		Atomics: a.atomic_cap != C.IBV_ATOMIC_NONE}, nil
}

// Port is the state of a port.
type Port struct {
	Active     bool
	State      string
	Ethernet   bool
	MTU        int
	LID        uint16
	MaxMessage int
}

// Port returns the state of a port, counted from 1.
func (c *Context) Port(number int) (Port, error) {
	var a C.struct_ibv_port_attr
	if err := check("ibv_query_port", C.tb_query_port(c.context, C.uint8_t(number),
		&a)); err != nil {
		return Port{}, err
	}
	return Port{Active: a.state == C.IBV_PORT_ACTIVE,
		State:    C.GoString(C.ibv_port_state_str(a.state)),
		Ethernet: a.link_layer == C.IBV_LINK_LAYER_ETHERNET, MTU: 128 << a.active_mtu,
		LID:        uint16(a.lid),
		MaxMessage: int(a.max_msg_sz)}, nil
}

// GID is an entry of a GID table.
type GID struct {
	Port, Index int
	Version2    bool // RoCE version 2
	Raw         [16]byte
}

// GIDs returns the used entries of the GID tables of all ports.
func (c *Context) GIDs(ports int) ([]GID, error) {
	entries := make([]C.struct_ibv_gid_entry, 256*ports)
	n, err := C.tb_query_gids(c.context, &entries[0], C.size_t(len(entries)))
	if n < 0 {
		return nil, fmt.Errorf("ibv_query_gid_table: %w", err)
	}
	var gids []GID
	for _, e := range entries[:n] {
		gids = append(gids, GID{Port: int(e.port_num), Index: int(e.gid_index),
			Version2: e.gid_type == C.IBV_GID_TYPE_ROCE_V2,
			Raw:      *(*[16]byte)(unsafe.Pointer(&e.gid))})
	}
	return gids, nil
}

// Memory is registered memory.
type Memory struct {
	mr                  *C.struct_ibv_mr
	LocalKey, RemoteKey uint32
	Address             uint64
}

// Register registers memory, which must lie outside the Go heap. access is a set of
// ibv_access_flags; local writes are always allowed.
func (c *Context) Register(memory []byte, access uint32) (*Memory, error) {
	p := unsafe.Pointer(unsafe.SliceData(memory))
	mr, err := C.tb_register(c.pd, p, C.size_t(len(memory)), C.int(access|C.IBV_ACCESS_LOCAL_WRITE))
	if mr == nil {
		return nil, err
	}
	return &Memory{mr: mr, LocalKey: uint32(mr.lkey), RemoteKey: uint32(mr.rkey),
		Address: uint64(uintptr(p))}, nil
}

// Deregister ends the registration.
func (m *Memory) Deregister() error {
	return check("ibv_dereg_mr", C.ibv_dereg_mr(m.mr))
}

// CQ is a completion queue with the cookies of its queue pairs.
type CQ struct {
	cq      *C.struct_tb_cq
	channel *C.struct_ibv_comp_channel
	cookies map[uint32]uint32
}

// NewCQ makes a completion queue of at least that many entries, with a non-blocking
// completion channel.
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
	q := &CQ{cq: (*C.struct_tb_cq)(C.calloc(1, C.sizeof_struct_tb_cq)), channel: channel,
		cookies: map[uint32]uint32{}}
	q.cq.cq = cq
	q.rebuild()
	return q, nil
}

// Channel returns a descriptor that becomes readable with the next completion after
// RequestEvent.
func (q *CQ) Channel() int { return int(q.channel.fd) }

// RequestEvent asks for an event with the next completion.
func (q *CQ) RequestEvent() error {
	return check("ibv_req_notify_cq", C.tb_notify(q.cq.cq))
}

// ClearEvents takes the events off the channel.
func (q *CQ) ClearEvents() { C.tb_clear(q.channel) }

// rebuild makes the hash table of cookies that tb_poll searches.
func (q *CQ) rebuild() {
	size := pow2.Ceil(max(8, 2*len(q.cookies)+2))
	C.free(unsafe.Pointer(q.cq.cookies))
	q.cq.cookies = (*C.struct_tb_cookie)(C.calloc(C.size_t(size), C.sizeof_struct_tb_cookie))
	q.cq.mask = C.uint32_t(size - 1)
	table := unsafe.Slice(q.cq.cookies, size)
	for number, cookie := range q.cookies {
		i := number * 2654435769 // as in cookie_of
		for table[i&uint32(size-1)].number != 0 {
			i++
		}
		table[i&uint32(size-1)] = C.struct_tb_cookie{C.uint32_t(number), C.uint32_t(cookie)}
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
	return check("ibv_destroy_srq", C.ibv_destroy_srq(s.srq))
}

// PairConfig configures a queue pair.
type PairConfig struct {
	Datagrams, Atomics               bool
	CQ                               *CQ
	SRQ                              *SRQ // nil for its own receive queue
	Send, Receive, Inline, MTU, Port int
	Cookie, QKey                     uint32

	// Dynamic asks for a DC initiator and a DC target with the access key QKey. The other fields
	// are for it alone.
	Dynamic         bool
	Global          bool // as of Path
	GIDIndex, Reads int
}

// attributes returns what creates a queue pair.
func (o *PairConfig) attributes() C.struct_ibv_qp_init_attr {
	a := C.struct_ibv_qp_init_attr{send_cq: o.CQ.cq.cq, recv_cq: o.CQ.cq.cq, qp_type: C.IBV_QPT_RC}
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
	return a
}

// access returns the rights of peers.
func (o *PairConfig) access() C.uint {
	access := C.uint(C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ)
	if o.Atomics {
		access |= C.IBV_ACCESS_REMOTE_ATOMIC
	}
	return access
}

// Pair is a queue pair.
type Pair struct {
	pair   *C.struct_tb_pair
	cq     *CQ
	pd     *C.struct_ibv_pd
	target *C.struct_ibv_qp // of DC
	steps  []step           // of DC: from state RESET to sending
	Number uint32           // what peers send to
	Inline int              // granted
}

// NewPair makes a queue pair. RC is in state INIT afterwards, UD and DC are ready to send.
func (c *Context) NewPair(o PairConfig) (*Pair, error) {
	a := o.attributes()
	if o.Dynamic {
		return c.newDC(o, a)
	}
	qp, err := C.ibv_create_qp(c.pd, &a)
	if qp == nil {
		return nil, err
	}
	p := c.newPair(o, a, qp)
	if err := p.initialize(o); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// newPair returns a created queue pair.
func (c *Context) newPair(o PairConfig, a C.struct_ibv_qp_init_attr, qp *C.struct_ibv_qp) *Pair {
	p := &Pair{pair: (*C.struct_tb_pair)(C.calloc(1, C.sizeof_struct_tb_pair)), cq: o.CQ, pd: c.pd,
		Number: uint32(qp.qp_num), Inline: int(a.cap.max_inline_data)}
	p.pair.qp = qp
	p.pair.max_inline = a.cap.max_inline_data
	if o.Atomics {
		p.pair.atomics = 1
	}
	if o.Datagrams {
		p.pair.max_datagram = C.uint32_t(o.MTU)
	}
	p.addCookie(p.Number, o.Cookie)
	return p
}

// addCookie adds the cookie of the completions of a queue pair with this number.
func (p *Pair) addCookie(number, cookie uint32) {
	p.cq.cookies[number] = cookie
	p.cq.rebuild()
}

// modify changes the state and attributes of a queue pair.
func (p *Pair) modify(a C.struct_ibv_qp_attr, mask C.int) error {
	return modify(p.pair.qp, a, mask)
}

func modify(qp *C.struct_ibv_qp, a C.struct_ibv_qp_attr, mask C.int) error {
	return check("ibv_modify_qp", C.ibv_modify_qp(qp, &a, C.IBV_QP_STATE|mask))
}

func (p *Pair) initialize(o PairConfig) error {
	a := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_INIT, port_num: C.uint8_t(o.Port)}
	if !o.Datagrams {
		a.qp_access_flags = o.access()
		return p.modify(a, C.IBV_QP_PKEY_INDEX|C.IBV_QP_PORT|C.IBV_QP_ACCESS_FLAGS)
	}
	a.qkey = C.uint32_t(o.QKey)
	if err := p.modify(a, C.IBV_QP_PKEY_INDEX|C.IBV_QP_PORT|C.IBV_QP_QKEY); err != nil {
		return err
	}
	if err := p.modify(C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTR}, 0); err != nil {
		return err
	}
	return p.modify(C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTS}, C.IBV_QP_SQ_PSN)
}

// Path is the way to a remote queue pair, and for RC the parameters of the connection. MTU
// has the code of enum ibv_mtu.
type Path struct {
	Port, MTU, GIDIndex                                     int
	Global                                                  bool
	GID                                                     [16]byte
	LID                                                     uint16
	Number, Sequence, Own                                   uint32
	Timeout, Retries, NotReadyRetries, NotReadyTimer, Reads int
}

// address returns the part of a path that routes packets.
func (o *Path) address() C.struct_ibv_ah_attr {
	a := C.struct_ibv_ah_attr{port_num: C.uint8_t(o.Port), dlid: C.uint16_t(o.LID)}
	if o.Global {
		a.is_global = 1
		a.grh.dgid = o.GID
		a.grh.sgid_index = C.uint8_t(o.GIDIndex)
		a.grh.hop_limit = 64
	}
	return a
}

// Connect takes an RC queue pair to state RTS.
func (p *Pair) Connect(o Path) error {
	err := p.modify(C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTR, ah_attr: o.address(),
		path_mtu:    uint32(o.MTU),
		dest_qp_num: C.uint32_t(o.Number), rq_psn: C.uint32_t(o.Sequence),
		max_dest_rd_atomic: C.uint8_t(o.Reads), min_rnr_timer: C.uint8_t(o.NotReadyTimer)},
		C.IBV_QP_AV|C.IBV_QP_PATH_MTU|C.IBV_QP_DEST_QPN|C.IBV_QP_RQ_PSN|C.IBV_QP_MAX_DEST_RD_ATOMIC|
			C.IBV_QP_MIN_RNR_TIMER)
	if err != nil {
		return err
	}
	return p.modify(C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTS, timeout: C.uint8_t(o.Timeout),
		retry_cnt: C.uint8_t(o.Retries),
		rnr_retry: C.uint8_t(o.NotReadyRetries), sq_psn: C.uint32_t(o.Own),
		max_rd_atomic: C.uint8_t(o.Reads)},
		C.IBV_QP_TIMEOUT|C.IBV_QP_RETRY_CNT|C.IBV_QP_RNR_RETRY|C.IBV_QP_SQ_PSN|
			C.IBV_QP_MAX_QP_RD_ATOMIC)
}

// AddPeer adds a peer to a UD queue pair and returns its index.
func (p *Pair) AddPeer(o Path, qkey uint32) (uint32, error) {
	a := o.address()
	ah, err := C.ibv_create_ah(p.pd, &a)
	if ah == nil {
		return 0, fmt.Errorf("ibv_create_ah: %w", err)
	}
	n := p.pair.peer_count
	p.pair.peers = (*C.struct_tb_peer)(C.realloc(unsafe.Pointer(p.pair.peers),
		C.size_t(n+1)*C.sizeof_struct_tb_peer))
	unsafe.Slice(p.pair.peers, int(n)+1)[n] = C.struct_tb_peer{ah: ah, number: C.uint32_t(o.Number),
		qkey: C.uint32_t(qkey)}
	p.pair.peer_count++
	return uint32(n), nil
}

// Close destroys the queue pair and its address handles.
func (p *Pair) Close() error {
	if p.target != nil {
		if err := check("ibv_destroy_qp of a DC target", C.ibv_destroy_qp(p.target)); err != nil {
			return err
		}
		delete(p.cq.cookies, uint32(p.target.qp_num))
	}
	number := uint32(p.pair.qp.qp_num)
	if err := check("ibv_destroy_qp", C.ibv_destroy_qp(p.pair.qp)); err != nil {
		return err
	}
	for _, peer := range unsafe.Slice(p.pair.peers, int(p.pair.peer_count)) {
		C.ibv_destroy_ah(peer.ah)
	}
	delete(p.cq.cookies, number)
	p.cq.rebuild()
	C.free(unsafe.Pointer(p.pair.peers))
	C.free(unsafe.Pointer(p.pair))
	return nil
}
