// Dynamically connected queue pairs, which are mlx5's. An initiator (DCI) sends to the targets (DCT) of
// any number of peers; see mlx5dv_create_qp(3). libmlx5 is opened at run time, so a program starts without
// it.
#ifndef TRANSPORTBENCH_IBVERBS_DC_H
#define TRANSPORTBENCH_IBVERBS_DC_H

#include "shim.h"

// tb_load_dc opens libmlx5. It returns 0, or the reason why it cannot. The others are called only after it
// has returned 0.
const char *tb_load_dc(void);

// tb_has_dc reports whether a device is one of mlx5.
int tb_has_dc(struct ibv_device *device);

// tb_create_dci and tb_create_dct create the two halves with the completion queues, the shared receive
// queue and the capacities of a; tb_create_dci sets those to what was granted.
struct ibv_qp *tb_create_dci(struct ibv_pd *pd, struct ibv_qp_init_attr *a, int atomics);
struct ibv_qp *tb_create_dct(struct ibv_pd *pd, const struct ibv_qp_init_attr *a, uint64_t key);

// tb_set_dc makes tb_post_send post to the initiator.
void tb_set_dc(struct tb_pair *pair);

#endif
