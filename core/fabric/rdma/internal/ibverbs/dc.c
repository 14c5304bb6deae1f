//go:build ibverbs

#include "dc.h"

#ifdef TB_MLX5 // with the tag mlx5

#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/mlx5dv.h>

static struct {
	bool (*is_supported)(struct ibv_device *);
	struct ibv_qp *(*create_qp)(struct ibv_context *, struct ibv_qp_init_attr_ex *,
				    struct mlx5dv_qp_init_attr *);
	struct mlx5dv_qp_ex *(*qp_ex)(struct ibv_qp_ex *);
} mlx5;

const char *tb_load_dc(void)
{
	void *library = dlopen("libmlx5.so.1", RTLD_NOW);

	if (!library)
		return dlerror();
	*(void **)&mlx5.is_supported = dlsym(library, "mlx5dv_is_supported");
	*(void **)&mlx5.create_qp = dlsym(library, "mlx5dv_create_qp");
	*(void **)&mlx5.qp_ex = dlsym(library, "mlx5dv_qp_ex_from_ibv_qp_ex");
	if (!mlx5.is_supported || !mlx5.create_qp || !mlx5.qp_ex)
		return "libmlx5.so.1 is too old";
	return 0;
}

int tb_has_dc(struct ibv_device *device)
{
	return mlx5.is_supported(device);
}

struct ibv_qp *tb_create_dci(struct ibv_pd *pd, struct ibv_qp_init_attr *a, int atomics)
{
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = a->send_cq, .recv_cq = a->recv_cq, .cap = a->cap, .qp_type = IBV_QPT_DRIVER, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
				  (atomics ? IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP : 0),
	};
	struct mlx5dv_qp_init_attr dc = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI},
	};
	struct ibv_qp *qp;

	ex.cap.max_recv_wr = ex.cap.max_recv_sge = 0;
	qp = mlx5.create_qp(pd->context, &ex, &dc);
	if (qp)
		a->cap = ex.cap;
	return qp;
}

struct ibv_qp *tb_create_dct(struct ibv_pd *pd, const struct ibv_qp_init_attr *a, uint64_t key)
{
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .qp_type = IBV_QPT_DRIVER, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct mlx5dv_qp_init_attr dc = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
		.dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = key},
	};

	return mlx5.create_qp(pd->context, &ex, &dc);
}

// tb_post_dc is tb_post_send for a DC initiator. A postlist is taken as a whole.
static int tb_post_dc(struct tb_send_call *call)
{
	struct tb_pair *pair = call->pair;
	struct ibv_qp_ex *qp = pair->extended;
	struct mlx5dv_qp_ex *dc = mlx5.qp_ex(qp);
	int posted = 0, failed;

	call->error = 0;
	ibv_wr_start(qp);
	for (; posted < call->n; posted++) {
		const struct tb_send *r = &call->requests[posted];
		const struct tb_peer *peer;

		if ((call->error = tb_check(pair, r)))
			break;
		peer = &pair->peers[r->peer];
		qp->wr_id = r->id;
		qp->wr_flags = r->flags & TB_SIGNALED ? IBV_SEND_SIGNALED : 0;
		switch (r->opcode) {
		case TB_WRITE:
			ibv_wr_rdma_write(qp, r->remote_key, r->remote);
			break;
		case TB_WRITE_IMMEDIATE:
			ibv_wr_rdma_write_imm(qp, r->remote_key, r->remote, htonl(r->immediate));
			break;
		case TB_SEND:
			ibv_wr_send(qp);
			break;
		case TB_SEND_IMMEDIATE:
			ibv_wr_send_imm(qp, htonl(r->immediate));
			break;
		case TB_READ:
			ibv_wr_rdma_read(qp, r->remote_key, r->remote);
			break;
		case TB_FETCH_ADD:
			ibv_wr_atomic_fetch_add(qp, r->remote_key, r->remote, r->operand);
			break;
		case TB_COMPARE_SWAP:
			ibv_wr_atomic_cmp_swp(qp, r->remote_key, r->remote, r->operand, r->swap);
			break;
		}
		mlx5dv_wr_set_dc_addr(dc, peer->ah, peer->number, peer->qkey);
		if (r->flags & TB_INLINED)
			ibv_wr_set_inline_data(qp, (void *)(uintptr_t)r->local, r->length);
		else
			ibv_wr_set_sge(qp, r->local_key, r->local, r->length);
	}
	failed = ibv_wr_complete(qp);
	if (!failed)
		return posted;
	call->error = failed < 0 ? -failed : failed;
	return 0;
}

void tb_set_dc(struct tb_pair *pair)
{
	pair->extended = ibv_qp_to_qp_ex(pair->qp);
	pair->post = tb_post_dc;
}

#else

const char *tb_load_dc(void)
{
	return "built without it; install libibverbs-dev, and build again (make build)";
}

int tb_has_dc(struct ibv_device *device)
{
	(void)device;
	return 0;
}

struct ibv_qp *tb_create_dci(struct ibv_pd *pd, struct ibv_qp_init_attr *a, int atomics)
{
	(void)pd, (void)a, (void)atomics;
	return 0;
}

struct ibv_qp *tb_create_dct(struct ibv_pd *pd, const struct ibv_qp_init_attr *a, uint64_t key)
{
	(void)pd, (void)a, (void)key;
	return 0;
}

void tb_set_dc(struct tb_pair *pair)
{
	(void)pair;
}

#endif
