//go:build ibverbs

package ibverbs

/*
#cgo mlx5 CFLAGS: -DTB_MLX5
#include "dc.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
)

// loadDC opens the library of DC, once.
var loadDC = sync.OnceValue(func() error {
	if reason := C.tb_load_dc(); reason != nil {
		return fmt.Errorf("dynamically connected queue pairs need libmlx5 (ibverbs-providers): %s",
			C.GoString(reason))
	}
	return nil
})

// newDC makes a DC initiator, and a DC target, which is what peers send to. Both are ready
// afterwards.
func (c *Context) newDC(o PairConfig, a C.struct_ibv_qp_init_attr) (*Pair, error) {
	if err := loadDC(); err != nil {
		return nil, err
	}
	if C.tb_has_dc(c.context.device) == 0 {
		return nil,
			errors.New(
				"the device is not one of mlx5, which alone has dynamically connected queue pairs")
	}
	var atomics C.int
	if o.Atomics {
		atomics = 1
	}
	qp, err := C.tb_create_dci(c.pd, &a, atomics)
	if qp == nil {
		return nil, fmt.Errorf("mlx5dv_create_qp of an initiator: %w", err)
	}
	p := c.newPair(o, a, qp)
	C.tb_set_dc(p.pair)
	if p.target, err = C.tb_create_dct(c.pd, &a, C.uint64_t(o.QKey)); p.target == nil {
		err = fmt.Errorf("mlx5dv_create_qp of a target: %w", err)
	} else {
		err = p.initializeDC(o)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	// A target has its number once it is ready to receive.
	p.Number = uint32(p.target.qp_num)
	p.addCookie(p.Number, o.Cookie)
	return p, nil
}

// step is a change of a queue pair's state.
type step struct {
	qp   *C.struct_ibv_qp
	a    C.struct_ibv_qp_attr
	mask C.int
}

func take(steps []step) error {
	for _, s := range steps {
		if err := modify(s.qp, s.a, s.mask); err != nil {
			return err
		}
	}
	return nil
}

// Restart takes a DC initiator from any state to RTS. It drops all requests and their completions.
func (p *Pair) Restart() error {
	reset := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RESET}
	if err := modify(p.pair.qp, reset, 0); err != nil {
		return err
	}
	return take(p.steps)
}

// initializeDC takes the initiator to state RTS and the target to RTR.
func (p *Pair) initializeDC(o PairConfig) error {
	// The defaults of rdma.ConnectOptions.
	const retries, timeout, notReadyTimer = 7, 14, 12
	port, mtu := C.uint8_t(o.Port), uint32(C.IBV_MTU_256)
	for 128<<mtu < o.MTU {
		mtu++
	}
	here := Path{Port: o.Port, GIDIndex: o.GIDIndex, Global: o.Global}
	p.steps = []step{
		{p.pair.qp, C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_INIT, port_num: port},
			C.IBV_QP_PKEY_INDEX | C.IBV_QP_PORT},
		{p.pair.qp, C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTR, path_mtu: mtu},
			C.IBV_QP_PATH_MTU},
		{p.pair.qp, C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTS, timeout: timeout,
			retry_cnt: retries, rnr_retry: retries,
			max_rd_atomic: C.uint8_t(o.Reads)},
			C.IBV_QP_TIMEOUT | C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY | C.IBV_QP_SQ_PSN |
				C.IBV_QP_MAX_QP_RD_ATOMIC},
	}
	if err := take(p.steps); err != nil {
		return err
	}
	return take([]step{
		{p.target, C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_INIT, port_num: port,
			qp_access_flags: o.access()},
			C.IBV_QP_PKEY_INDEX | C.IBV_QP_PORT | C.IBV_QP_ACCESS_FLAGS},
		{p.target, C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTR, path_mtu: mtu,
			min_rnr_timer: notReadyTimer, ah_attr: here.address()},
			C.IBV_QP_AV | C.IBV_QP_PATH_MTU | C.IBV_QP_MIN_RNR_TIMER},
	})
}
