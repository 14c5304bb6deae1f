// The C part of the verbs device of core/fabric/rdma. The structs of requests and
// completions have the layout of the Go types that are named above them; core/fabric/rdma
// checks their sizes at compile time.
#ifndef TRANSPORTBENCH_IBVERBS_SHIM_H
#define TRANSPORTBENCH_IBVERBS_SHIM_H

#include <infiniband/verbs.h>
#include <stdint.h>

// rdma.SendRequest
struct tb_send {
	uint64_t id, local, remote;
	uint32_t length, local_key, remote_key, immediate, peer;
	uint8_t opcode, flags, pad[2];
	uint64_t operand, swap;
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

// The opcodes and flags of requests, as in core/fabric/rdma.
enum { TB_WRITE = 1, TB_WRITE_IMMEDIATE, TB_SEND, TB_SEND_IMMEDIATE, TB_READ, TB_FETCH_ADD, TB_COMPARE_SWAP };
enum { TB_RECEIVE = 8, TB_RECEIVE_WRITE = 9 };
enum { TB_SIGNALED = 1, TB_INLINED = 2 };

// tb_peer is a peer of a UD or DC queue pair.
struct tb_peer {
	struct ibv_ah *ah;
	uint32_t number, qkey;
};

struct tb_send_call;

struct tb_pair {
	struct ibv_qp *qp;
	struct ibv_qp_ex *extended; // qp's; null but for DC
	int (*post)(struct tb_send_call *call); // instead of tb_post_send; null but for DC
	uint32_t max_inline, max_datagram; // max_datagram is 0 for RC
	uint32_t atomics;
	struct tb_peer *peers;
	uint32_t peer_count;
};

// tb_cq maps the numbers of its queue pairs to their cookies with a hash table, whose size
// is a power of two and which is at most half full. An entry with number 0 is free.
struct tb_cq {
	struct ibv_cq *cq;
	uint32_t mask;
	struct tb_cookie {
		uint32_t number, cookie;
	} *cookies;
};

// Codes for malformed requests, besides errno values.
enum { TB_INLINE = -1, TB_OPCODE = -2, TB_PEER = -3, TB_DATAGRAM = -4, TB_ATOMIC = -5 };

// tb_load_verbs opens libibverbs. It returns 0, or the reason why it cannot. It must have returned 0 before
// any function of libibverbs is called.
const char *tb_load_verbs(const char *file);

// tb_check returns the code for a malformed request, or 0.
int tb_check(const struct tb_pair *pair, const struct tb_send *r);

// The functions of the data path take one pointer to their arguments because
// core/fabric/ccall calls them.

// tb_post_send and tb_post_receive post n requests in order and return how many they took.
// If those are fewer than n, error is the reason.
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

// tb_poll polls up to n completions and returns how many, or a negative errno.
struct tb_poll_call {
	struct tb_cq *cq;
	struct tb_completion *completions;
	int n;
};
int tb_poll(struct tb_poll_call *call);

// Immediates with these two highest bits belong to probes. rdma.IsProbe tests the same bits.
#define TB_PROBE UINT32_C(0x80000000)
#define TB_PROBE_MASK UINT32_C(0xc0000000)

// Results of tb_lead and tb_follow, besides negative errno values.
enum { TB_DONE = 0, TB_STOPPED = 1, TB_LOST = 2, TB_FOREIGN = 3 };

enum { TB_FOREIGNS = 64 };

// tb_loop is one side of probes over a queue pair. A message is one or more parts, each a send with
// an immediate, which is all that the receiver looks at. Durations are nanoseconds.
struct tb_loop {
	struct tb_pair *pair;
	struct tb_cq *cq;
	struct ibv_srq *srq; // null if the pair has its own receive queue
	struct tb_send send; // what all parts have in common
	// Receive number i is posted again at receives + i * stride.
	uint64_t receives;
	uint32_t stride, receive_length, receive_key;
	uint32_t depth;	      // parts in the send queue at most
	uint32_t parts, part, last; // of an outgoing message: their number, and the bytes of all but the last and of the last
	uint32_t expected;    // parts of an incoming message

	// tb_lead keeps window messages under way, posts group of them at once, and measures for duration
	// or max messages, whichever ends first. Both give up after patience without an arrival.
	uint32_t window, group, max, farewell;
	uint64_t duration, patience;
	uint64_t ops, elapsed; // what tb_lead measured

	uint32_t nonce, epoch, last_nonce, arrived, queued, cursor, posted, freed;
	uint32_t stop; // any thread may set it
	uint32_t foreign_count;
	struct tb_completion foreign[TB_FOREIGNS]; // polled, and not of the probe
};

// tb_lead measures one slice, and tb_follow answers until the leader's farewell. They return TB_LOST
// if nothing has arrived for too long, and TB_FOREIGN once foreign has something.
int tb_lead(struct tb_loop *l);
int tb_follow(struct tb_loop *l);

// tb_notify asks for an event with the next completion. tb_clear takes all events off a
// non-blocking channel.
int tb_notify(struct ibv_cq *cq);
void tb_clear(struct ibv_comp_channel *channel);

// Wrappers of macros and inline functions of verbs.h.
int tb_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
struct ibv_mr *tb_register(struct ibv_pd *pd, void *memory, size_t length, int access);
ssize_t tb_query_gids(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max);

#endif
