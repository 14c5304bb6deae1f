//go:build ibverbs

#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>

enum { CHUNK = 32 };

// rdma.Opcode
static const enum ibv_wr_opcode send_opcodes[] = {
	[1] = IBV_WR_RDMA_WRITE, [2] = IBV_WR_RDMA_WRITE_WITH_IMM, [3] = IBV_WR_SEND,
	[4] = IBV_WR_SEND_WITH_IMM, [5] = IBV_WR_RDMA_READ,
};
enum { OP_SEND = 3, OP_SEND_IMMEDIATE = 4, OP_READ = 5, OP_RECEIVE = 6, OP_RECEIVE_WRITE = 7 };
enum { FLAG_SIGNALED = 1, FLAG_INLINE = 2 };

static int check(const struct tb_pair *pair, const struct tb_send *r)
{
	if (r->opcode < 1 || r->opcode > OP_READ)
		return TB_OPCODE;
	if ((r->flags & FLAG_INLINE) && r->length > pair->max_inline)
		return TB_INLINE;
	if (!pair->max_datagram)
		return 0;
	if (r->opcode != OP_SEND && r->opcode != OP_SEND_IMMEDIATE)
		return TB_OPCODE;
	if (r->peer >= pair->peer_count)
		return TB_PEER;
	if (r->length > pair->max_datagram)
		return TB_DATAGRAM;
	return 0;
}

static void translate(const struct tb_pair *pair, const struct tb_send *r, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	wr->wr_id = r->id;
	wr->sg_list = sge;
	wr->num_sge = r->length != 0;
	wr->opcode = send_opcodes[r->opcode];
	wr->send_flags = (r->flags & FLAG_SIGNALED ? IBV_SEND_SIGNALED : 0) | (r->flags & FLAG_INLINE ? IBV_SEND_INLINE : 0);
	wr->imm_data = htonl(r->immediate);
	sge->addr = r->local;
	sge->length = r->length;
	sge->lkey = r->local_key;
	if (pair->max_datagram) {
		wr->wr.ud.ah = pair->peers[r->peer].ah;
		wr->wr.ud.remote_qpn = pair->peers[r->peer].number;
		wr->wr.ud.remote_qkey = pair->peers[r->peer].qkey;
	} else {
		wr->wr.rdma.remote_addr = r->remote;
		wr->wr.rdma.rkey = r->remote_key;
	}
}

int tb_post_send(struct tb_send_call *call)
{
	struct tb_pair *pair = call->pair;
	struct ibv_send_wr list[CHUNK], *bad;
	struct ibv_sge sges[CHUNK];
	int posted = 0, n = call->n;

	call->error = 0;
	while (posted < n && !call->error) {
		int count = 0, failed;
		for (; count < CHUNK && posted + count < n; count++) {
			const struct tb_send *r = &call->requests[posted + count];
			if ((call->error = check(pair, r)))
				break;
			translate(pair, r, &list[count], &sges[count]);
			list[count].next = 0;
			if (count)
				list[count - 1].next = &list[count];
		}
		if (!count)
			break;
		bad = 0;
		failed = ibv_post_send(pair->qp, list, &bad);
		if (failed) {
			call->error = failed < 0 ? -failed : failed;
			return posted + (bad ? (int)(bad - list) : 0);
		}
		posted += count;
	}
	return posted;
}

int tb_post_receive(struct tb_receive_call *call)
{
	struct ibv_recv_wr list[CHUNK], *bad;
	struct ibv_sge sges[CHUNK];
	int posted = 0, n = call->n;

	call->error = 0;
	while (posted < n) {
		int count = 0, failed;
		for (; count < CHUNK && posted + count < n; count++) {
			const struct tb_receive *r = &call->requests[posted + count];
			list[count].wr_id = r->id;
			list[count].next = 0;
			list[count].sg_list = &sges[count];
			list[count].num_sge = r->length != 0;
			sges[count].addr = r->local;
			sges[count].length = r->length;
			sges[count].lkey = r->local_key;
			if (count)
				list[count - 1].next = &list[count];
		}
		bad = 0;
		failed = call->srq ? ibv_post_srq_recv(call->srq, list, &bad) : ibv_post_recv(call->qp, list, &bad);
		if (failed) {
			call->error = failed < 0 ? -failed : failed;
			return posted + (bad ? (int)(bad - list) : 0);
		}
		posted += count;
	}
	return posted;
}

// cookie_of returns -1 if the queue pair does not exist any more.
static int64_t cookie_of(const struct tb_cq *cq, uint32_t number)
{
	for (uint32_t i = number * 2654435769u;; i++) {
		const struct tb_cookie *c = &cq->cookies[i & cq->mask];
		if (c->number == number)
			return c->cookie;
		if (!c->number)
			return -1;
	}
}

static uint8_t opcode_of(enum ibv_wc_opcode opcode)
{
	switch (opcode) {
	case IBV_WC_RDMA_WRITE:
		return 1; // with or without immediate: the completion does not tell
	case IBV_WC_SEND:
		return OP_SEND;
	case IBV_WC_RDMA_READ:
		return OP_READ;
	case IBV_WC_RECV:
		return OP_RECEIVE;
	case IBV_WC_RECV_RDMA_WITH_IMM:
		return OP_RECEIVE_WRITE;
	default:
		return 0;
	}
}

int tb_poll(struct tb_poll_call *call)
{
	struct tb_cq *cq = call->cq;
	struct ibv_wc list[CHUNK];
	int polled = 0, n = call->n;

	while (polled < n) {
		int want = n - polled < CHUNK ? n - polled : CHUNK;
		int got = ibv_poll_cq(cq->cq, want, list);
		if (got < 0)
			return polled ? polled : -EIO;
		for (int i = 0; i < got; i++) {
			const struct ibv_wc *wc = &list[i];
			struct tb_completion *c = &call->completions[polled];
			int64_t cookie = cookie_of(cq, wc->qp_num);
			// Soft-RoCE leaves completions of a destroyed queue pair in the queue.
			if (cookie < 0)
				continue;
			polled++;
			c->pair = cookie;
			c->id = wc->wr_id;
			c->status = wc->status;
			c->vendor = wc->vendor_err;
			c->opcode = 0;
			c->has_immediate = 0;
			if (wc->status != IBV_WC_SUCCESS)
				continue;
			c->opcode = opcode_of(wc->opcode);
			c->length = wc->byte_len;
			c->source = wc->src_qp;
			c->has_immediate = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
			c->immediate = ntohl(wc->imm_data);
		}
		if (got < want)
			break;
	}
	return polled;
}

int tb_notify(struct ibv_cq *cq)
{
	return ibv_req_notify_cq(cq, 0);
}

void tb_clear(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

int tb_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)
{
	return ibv_query_port(context, port, attributes);
}

struct ibv_mr *tb_register(struct ibv_pd *pd, void *memory, size_t length, int access)
{
	return ibv_reg_mr(pd, memory, length, access);
}

ssize_t tb_query_gids(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max)
{
	return ibv_query_gid_table(context, entries, max, 0);
}
