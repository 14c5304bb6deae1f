//go:build ibverbs && !mlx5dv

package ibverbs

/*
#include "shim.h"
*/
import "C"

import "errors"

func (*Context) newDC(PairConfig, C.struct_ibv_qp_init_attr) (*Pair, error) {
	return nil, errors.New("built without mlx5dv, which has dynamically connected queue pairs; " +
		"build with -tags ibverbs,mlx5dv")
}
