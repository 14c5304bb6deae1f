//go:build ibverbs

#include "shim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <time.h>

enum { CHUNK = 32 };

// rdma.Opcode
static const enum ibv_wr_opcode send_opcodes[] = {
	[TB_WRITE] = IBV_WR_RDMA_WRITE, [TB_WRITE_IMMEDIATE] = IBV_WR_RDMA_WRITE_WITH_IMM, [TB_SEND] = IBV_WR_SEND,
	[TB_SEND_IMMEDIATE] = IBV_WR_SEND_WITH_IMM, [TB_READ] = IBV_WR_RDMA_READ,
	[TB_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD, [TB_COMPARE_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
};

int tb_check(const struct tb_pair *pair, const struct tb_send *r)
{
	if (r->opcode < 1 || r->opcode > (pair->atomics ? TB_COMPARE_SWAP : TB_READ))
		return TB_OPCODE;
	if (r->opcode > TB_READ && (r->length != 8 || r->remote % 8))
		return TB_ATOMIC;
	if ((r->flags & TB_INLINED) && r->length > pair->max_inline)
		return TB_INLINE;
	if ((pair->post || pair->max_datagram) && r->peer >= pair->peer_count)
		return TB_PEER;
	if (!pair->max_datagram)
		return 0;
	if (r->opcode != TB_SEND && r->opcode != TB_SEND_IMMEDIATE)
		return TB_OPCODE;
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
	wr->send_flags = (r->flags & TB_SIGNALED ? IBV_SEND_SIGNALED : 0) | (r->flags & TB_INLINED ? IBV_SEND_INLINE : 0);
	wr->imm_data = htonl(r->immediate);
	sge->addr = r->local;
	sge->length = r->length;
	sge->lkey = r->local_key;
	if (pair->max_datagram) {
		wr->wr.ud.ah = pair->peers[r->peer].ah;
		wr->wr.ud.remote_qpn = pair->peers[r->peer].number;
		wr->wr.ud.remote_qkey = pair->peers[r->peer].qkey;
	} else if (r->opcode > TB_READ) {
		wr->wr.atomic.remote_addr = r->remote;
		wr->wr.atomic.rkey = r->remote_key;
		wr->wr.atomic.compare_add = r->operand;
		wr->wr.atomic.swap = r->swap;
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

	if (pair->post)
		return pair->post(call);
	call->error = 0;
	while (posted < n && !call->error) {
		int count = 0, failed;
		for (; count < CHUNK && posted + count < n; count++) {
			const struct tb_send *r = &call->requests[posted + count];
			if ((call->error = tb_check(pair, r)))
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
		return TB_WRITE; // with or without immediate: the completion does not tell
	case IBV_WC_SEND:
		return TB_SEND;
	case IBV_WC_RDMA_READ:
		return TB_READ;
	case IBV_WC_FETCH_ADD:
		return TB_FETCH_ADD;
	case IBV_WC_COMP_SWAP:
		return TB_COMPARE_SWAP;
	case IBV_WC_RECV:
		return TB_RECEIVE;
	case IBV_WC_RECV_RDMA_WITH_IMM:
		return TB_RECEIVE_WRITE;
	default:
		return 0;
	}
}

// complete translates a completion. It returns 0 if its queue pair does not exist any more: Soft-RoCE
// leaves completions of a destroyed queue pair in the queue.
static int complete(const struct tb_cq *cq, const struct ibv_wc *wc, struct tb_completion *c)
{
	int64_t cookie = cookie_of(cq, wc->qp_num);
	if (cookie < 0)
		return 0;
	c->pair = cookie;
	c->id = wc->wr_id;
	c->status = wc->status;
	c->vendor = wc->vendor_err;
	c->opcode = 0;
	c->has_immediate = 0;
	if (wc->status != IBV_WC_SUCCESS)
		return 1;
	c->opcode = opcode_of(wc->opcode);
	c->length = wc->byte_len;
	c->source = wc->src_qp;
	c->has_immediate = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
	c->immediate = ntohl(wc->imm_data);
	return 1;
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
		for (int i = 0; i < got; i++)
			polled += complete(cq, &list[i], &call->completions[polled]);
		if (got < want)
			break;
	}
	return polled;
}

// The immediate of a probe's message: two bits that mark it, the kind, the nonce of the probe and
// the epoch, which separates the messages of one slice from those of the last.
enum { REQUEST = 0, ANSWER = 1, OVER = 2, ENDED = 3 };
enum { NONCE_BITS = 15, EPOCH_BITS = 13 };
enum { FAREWELLS = 3 };
#define LOOP_ID (UINT64_C(0x7462) << 48) // with the number of the send

static uint32_t immediate(uint32_t kind, uint32_t nonce, uint32_t epoch)
{
	return TB_PROBE | kind << (NONCE_BITS + EPOCH_BITS) | nonce << EPOCH_BITS | epoch;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

static int stopped(struct tb_loop *l)
{
	return __atomic_load_n(&l->stop, __ATOMIC_RELAXED);
}

// push posts queued parts, as many as the send queue has room for. It returns 0 or a negative errno.
static int push(struct tb_loop *l, uint32_t imm)
{
	while (l->queued) {
		struct ibv_send_wr list[CHUNK], *bad = 0;
		struct ibv_sge sges[CHUNK];
		uint32_t n = l->depth - (l->posted - l->freed), taken, every = l->depth < 64 ? (l->depth + 3) / 4 : 16;
		uint32_t at = l->cursor;
		int failed;

		n = n < l->queued ? n : l->queued;
		n = n < CHUNK ? n : CHUNK;
		if (!n)
			return 0;
		for (uint32_t i = 0; i < n; i++) {
			struct tb_send r = l->send;
			uint32_t number = l->posted + i + 1;
			r.id = LOOP_ID | number;
			r.immediate = imm;
			r.length = at == l->parts - 1 ? l->last : l->part;
			r.flags = (number % every ? 0 : TB_SIGNALED) | (r.length <= l->pair->max_inline ? TB_INLINED : 0);
			at = at == l->parts - 1 ? 0 : at + 1;
			translate(l->pair, &r, &list[i], &sges[i]);
			list[i].next = 0;
			if (i)
				list[i - 1].next = &list[i];
		}
		failed = ibv_post_send(l->pair->qp, list, &bad);
		taken = failed && bad ? (uint32_t)(bad - list) : failed ? 0 : n;
		l->posted += taken;
		l->queued -= taken;
		l->cursor = (l->cursor + taken) % l->parts;
		failed = failed < 0 ? -failed : failed;
		if (failed == ENOMEM || failed == ENOSPC || failed == EAGAIN)
			return 0;
		if (failed)
			return -failed;
	}
	return 0;
}

// take polls once. It stores the immediates of messages of probes, posts their receives again, and
// keeps completions that are not of a probe in foreign. It returns the number of immediates or a
// negative errno.
static int take(struct tb_loop *l, uint32_t *immediates)
{
	struct ibv_wc list[CHUNK];
	struct tb_receive receives[CHUNK];
	struct tb_receive_call again = {.qp = l->pair->qp, .srq = l->srq, .requests = receives};
	int found = 0, got = ibv_poll_cq(l->cq->cq, CHUNK, list);

	if (got < 0)
		return -EIO;
	for (int i = 0; i < got; i++) {
		const struct ibv_wc *wc = &list[i];
		int own = wc->qp_num == l->pair->qp->qp_num && wc->status == IBV_WC_SUCCESS;
		int received = own && (wc->opcode == IBV_WC_RECV || wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
		uint32_t imm = received && (wc->wc_flags & IBV_WC_WITH_IMM) ? ntohl(wc->imm_data) : 0;
		int probe = (imm & TB_PROBE_MASK) == TB_PROBE;
		if (own && !received && (wc->wr_id & LOOP_ID) == LOOP_ID) {
			if ((int32_t)((uint32_t)wc->wr_id - l->freed) > 0)
				l->freed = (uint32_t)wc->wr_id;
		} else if (probe || (received && l->pair->max_datagram)) { // anybody can send a datagram
			struct tb_receive *r = &receives[again.n++];
			r->id = wc->wr_id;
			r->local = l->receives + (uint32_t)wc->wr_id * (uint64_t)l->stride;
			r->length = l->receive_length;
			r->local_key = l->receive_key;
			if (probe)
				immediates[found++] = imm;
		} else {
			l->foreign_count += complete(l->cq, wc, &l->foreign[l->foreign_count]);
		}
	}
	if (again.n && tb_post_receive(&again) < again.n)
		return again.error ? -again.error : -EIO;
	return found;
}

// wait is spin.Wait of core/fabric/spin in C, with the same constants, in nanoseconds.
struct wait {
	uint64_t began; // when the clock was first read in this wait; 0 if not yet
	uint64_t sleep; // when the thread sleeps next
	uint64_t spin; // SPIN_TIMES the longest recent wait; 0 if none is known
};

enum { SPIN_TIMES = 4, SPIN_DECAY = 6 };
enum { LEAST_SPIN = 100000, FIRST_SPIN = 1000000, MOST_SPIN = 2000000, REST = 50000 };

// spun is called from time to time by a thread that waits. It sleeps if the thread has been spinning for long.
static void spun(struct wait *w, uint64_t time)
{
	static const struct timespec rest = {0, REST};

	if (!w->began) {
		w->began = time;
		w->sleep = time + (!w->spin ? FIRST_SPIN : w->spin < LEAST_SPIN ? LEAST_SPIN : w->spin);
	} else if (time >= w->sleep) {
		nanosleep(&rest, NULL);
		w->sleep = now() + LEAST_SPIN;
	}
}

// found is called when a wait has ended.
static void found(struct wait *w)
{
	w->spin -= w->spin >> SPIN_DECAY;
	if (w->began) {
		uint64_t spin = SPIN_TIMES * (now() - w->began);

		spin = spin < MOST_SPIN ? spin : MOST_SPIN;
		w->spin = w->spin > spin ? w->spin : spin;
		w->began = 0;
	}
	w->spin += !w->spin;
}

int tb_lead(struct tb_loop *l)
{
	uint32_t kind = l->farewell ? OVER : REQUEST, want, imm, out = 0, arrived = 0, looks = 0;
	uint64_t got = 0, first = 0, start = 0, heard = now();
	struct wait wait = {.began = heard, .sleep = heard + FIRST_SPIN};
	int measuring = 0, ending = 0;

	l->epoch = (l->epoch + 1) & ((1 << EPOCH_BITS) - 1);
	imm = immediate(kind, l->nonce, l->epoch);
	want = immediate(l->farewell ? ENDED : ANSWER, l->nonce, l->epoch);
	l->queued = l->cursor = l->foreign_count = 0;
	l->freed = l->posted; // Go may have polled the completions; a full queue refuses sends
	l->ops = l->elapsed = 0;
	while (!stopped(l)) {
		uint32_t immediates[CHUNK], whole;
		uint64_t time;
		int n, error;

		if (!ending && l->window - out >= l->group) {
			l->queued += (l->window - out) * l->parts;
			out = l->window;
		}
		if ((error = push(l, imm)))
			return error;
		if ((n = take(l, immediates)) < 0)
			return n;
		if (l->foreign_count)
			return TB_FOREIGN;
		for (int i = 0; i < n; i++)
			arrived += immediates[i] == want ||
				   (l->farewell && immediates[i] >> EPOCH_BITS == want >> EPOCH_BITS); // to an earlier try
		whole = arrived / l->expected;
		arrived %= l->expected;
		got += whole;
		out -= whole < out ? whole : out;
		if (!n && looks++ % 16)
			continue;
		time = now();
		if (n) {
			heard = time;
			found(&wait);
		} else {
			spun(&wait, time);
		}
		if (!n && time - heard > l->patience)
			return ending ? TB_DONE : TB_LOST;
		if (l->farewell && got)
			return TB_DONE;
		if (!measuring && got >= l->window) {
			measuring = 1;
			first = got;
			start = time;
		} else if (measuring && !ending && got > first &&
			   (time - start >= l->duration || got - first >= l->max)) {
			ending = 1;
			l->ops = got - first;
			l->elapsed = time - start;
		}
		if (ending && !out && !l->queued)
			return TB_DONE;
	}
	return TB_STOPPED;
}

// farewell tells the leader that the probe has ended. A datagram may be lost, so it sends several.
static int farewell(struct tb_loop *l, uint32_t epoch)
{
	uint32_t immediates[CHUNK];
	uint64_t start = now();

	l->last_nonce = l->nonce;
	l->parts = 1;
	l->part = l->last = l->cursor = 0;
	l->queued = l->pair->max_datagram ? FAREWELLS : 1;
	while (l->queued && !stopped(l) && now() - start < l->patience) {
		int error = push(l, immediate(ENDED, l->nonce, epoch));
		if (error || (error = take(l, immediates)) < 0)
			return error;
		if (l->foreign_count)
			break;
	}
	return TB_DONE;
}

int tb_follow(struct tb_loop *l)
{
	uint64_t start = now();
	struct wait wait = {.began = start, .sleep = start + FIRST_SPIN};

	l->foreign_count = 0;
	l->freed = l->posted;
	for (uint32_t looks = 0; !stopped(l); looks++) {
		uint32_t immediates[CHUNK];
		int n, error;

		if ((error = push(l, immediate(ANSWER, l->nonce, l->epoch))))
			return error;
		if ((n = take(l, immediates)) < 0)
			return n;
		for (int i = 0; i < n; i++) {
			uint32_t imm = immediates[i], kind = imm >> (NONCE_BITS + EPOCH_BITS) & 3;
			uint32_t nonce = imm >> EPOCH_BITS & ((1 << NONCE_BITS) - 1), epoch = imm & ((1 << EPOCH_BITS) - 1);
			if (nonce == l->last_nonce)
				continue; // of a probe that has ended
			if (kind == OVER && nonce == l->nonce)
				return farewell(l, epoch);
			if (kind != REQUEST)
				continue;
			if (nonce != l->nonce || epoch != l->epoch) {
				l->nonce = nonce;
				l->epoch = epoch;
				l->arrived = l->queued = l->cursor = 0;
			}
			if (++l->arrived == l->expected) {
				l->arrived = 0;
				l->queued += l->parts;
			}
		}
		if (l->foreign_count)
			return TB_FOREIGN;
		if (n)
			found(&wait);
		if (looks % 64 == 63) {
			uint64_t time = now();

			if (time - start > l->patience)
				return TB_LOST;
			if (!n)
				spun(&wait, time);
		}
	}
	return TB_STOPPED;
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
