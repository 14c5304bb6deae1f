//go:build ibverbs

// The functions of libibverbs that the other files call, under their own names: each jumps to the one that
// tb_load_verbs has found. Posting and polling do not pass here, since verbs.h calls the device's driver inline.

#include "shim.h"

#include <dlfcn.h>

#undef ibv_query_port // a macro, too

#define FUNCTIONS(F) \
	F(struct ibv_device **, ibv_get_device_list, (int *n), (n)) \
	F(void, ibv_free_device_list, (struct ibv_device **list), (list)) \
	F(const char *, ibv_get_device_name, (struct ibv_device *d), (d)) \
	F(struct ibv_context *, ibv_open_device, (struct ibv_device *d), (d)) \
	F(int, ibv_close_device, (struct ibv_context *c), (c)) \
	F(int, ibv_query_device, (struct ibv_context *c, struct ibv_device_attr *a), (c, a)) \
	F(int, ibv_query_port, (struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *a), (c, port, a)) \
	F(const char *, ibv_port_state_str, (enum ibv_port_state s), (s)) \
	F(ssize_t, _ibv_query_gid_table, \
	  (struct ibv_context *c, struct ibv_gid_entry *e, size_t max, uint32_t flags, size_t size), \
	  (c, e, max, flags, size)) \
	F(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *c), (c)) \
	F(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd)) \
	F(struct ibv_mr *, ibv_reg_mr_iova2, \
	  (struct ibv_pd *pd, void *at, size_t length, uint64_t iova, unsigned access), (pd, at, length, iova, access)) \
	F(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr)) \
	F(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *c), (c)) \
	F(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *c), (c)) \
	F(int, ibv_get_cq_event, (struct ibv_comp_channel *c, struct ibv_cq **cq, void **context), (c, cq, context)) \
	F(void, ibv_ack_cq_events, (struct ibv_cq *cq, unsigned n), (cq, n)) \
	F(struct ibv_cq *, ibv_create_cq, \
	  (struct ibv_context *c, int n, void *context, struct ibv_comp_channel *channel, int vector), \
	  (c, n, context, channel, vector)) \
	F(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq)) \
	F(struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *a), (pd, a)) \
	F(int, ibv_destroy_srq, (struct ibv_srq *srq), (srq)) \
	F(struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *a), (pd, a)) \
	F(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *a, int mask), (qp, a, mask)) \
	F(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp)) \
	F(struct ibv_qp_ex *, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp)) \
	F(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *a), (pd, a)) \
	F(int, ibv_destroy_ah, (struct ibv_ah *ah), (ah))

// The functions are hidden so that libibverbs and its drivers do not call them.
#define DEFINE(result, name, parameters, arguments) \
	static result(*name##_found) parameters; \
	__attribute__((visibility("hidden"))) result name parameters \
	{ \
		return name##_found arguments; \
	}
FUNCTIONS(DEFINE)

const char *tb_load_verbs(const char *file)
{
	void *library = dlopen(file, RTLD_NOW);

	if (!library)
		return dlerror();
#define LOOK_UP(result, name, parameters, arguments) \
	*(void **)&name##_found = dlsym(library, #name); \
	if (!name##_found) \
		return dlerror();
	FUNCTIONS(LOOK_UP)
	return 0;
}
