// The C half of core/fabric/rdma's verbs device. What is posted and polled has the layout
// of the Go types of the same fields; core/fabric/rdma checks that at compile time.
#ifndef TRANSPORTBENCH_IBVERBS_SHIM_H
#define TRANSPORTBENCH_IBVERBS_SHIM_H

#include <infiniband/verbs.h>
#include <stdint.h>

// rdma.SendRequest
struct tb_send {
	uint64_t id, local, remote;
	uint32_t length, local_key, remote_key, immediate, peer;
	uint8_t opcode, flags, pad[2];
};

// rdma.ReceiveRequest
struct tb_receive {
	uint64_t id, local;
	uint32_t length, local_key;
};

// rdma.Completion
struct tb_completion {
	uint64_t id;
	uint32_t pair, length, immediate, source, vendor;
	uint8_t opcode, status, has_immediate, pad;
};

// tb_peer is a peer of a UD queue pair.
struct tb_peer {
	struct ibv_ah *ah;
	uint32_t number, qkey;
};

struct tb_pair {
	struct ibv_qp *qp;
	uint32_t max_inline, max_datagram; // max_datagram is 0 for RC
	struct tb_peer *peers;
	uint32_t peer_count;
};

// tb_cq has the cookies of its queue pairs by their numbers: a hash table of
// a power of two places, less than half full. A number of 0 is a free place.
struct tb_cq {
	struct ibv_cq *cq;
	uint32_t mask;
	struct tb_cookie {
		uint32_t number, cookie;
	} *cookies;
};

// What is wrong with a request, beside values of errno.
enum { TB_INLINE = -1, TB_OPCODE = -2, TB_PEER = -3, TB_DATAGRAM = -4 };

// The data path is called with one pointer to arguments, as core/fabric/ccall does.

// Each posts n requests in order and returns how many it took; error says why not all.
struct tb_send_call {
	struct tb_pair *pair;
	const struct tb_send *requests;
	int n, error;
};
int tb_post_send(struct tb_send_call *call);

// One of qp and srq is null.
struct tb_receive_call {
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	const struct tb_receive *requests;
	int n, error;
};
int tb_post_receive(struct tb_receive_call *call);

// tb_poll takes n completions at most, and returns how many or a negative errno.
struct tb_poll_call {
	struct tb_cq *cq;
	struct tb_completion *completions;
	int n;
};
int tb_poll(struct tb_poll_call *call);

// tb_notify asks for an event with the next completion, and tb_clear takes the events
// of a channel that does not block.
int tb_notify(struct ibv_cq *cq);
void tb_clear(struct ibv_comp_channel *channel);

// These are macros or inline functions in the header.
int tb_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
struct ibv_mr *tb_register(struct ibv_pd *pd, void *memory, size_t length, int access);
ssize_t tb_query_gids(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max);

// tb_address_handle makes one; where the path has a GID it goes with a GRH.
struct ibv_ah *tb_address_handle(struct ibv_pd *pd, uint8_t port, uint16_t lid, int global, uint8_t gid[16], uint8_t gid_index);

// The transitions of a queue pair; each returns 0 or errno.
int tb_init(struct ibv_qp *qp, uint8_t port, uint32_t qkey);
struct tb_path {
	uint8_t port, mtu, global, gid_index, timeout, retries, not_ready_retries, not_ready_timer, reads;
	uint16_t lid;
	uint8_t gid[16];
	uint32_t number, sequence, own_sequence;
};
int tb_connect(struct ibv_qp *qp, const struct tb_path *path);
int tb_ready_datagrams(struct ibv_qp *qp);

#endif
