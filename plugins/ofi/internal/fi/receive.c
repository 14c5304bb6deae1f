//go:build ofi && cgo

#include "shim_internal.h"

fb_peer *fb_find_indexed(fb_worker *w, uint64_t origin)
{
	for (uint32_t at = fb_index(w, origin); w->index[at] != 0; at = (at + 1) & w->index_mask) {
		fb_peer *p = &w->peers[w->index[at] - 1];
		if (fb_kind(p, origin) <= AM_LOST)
			return w->last = p;
	}
	return NULL;
}

// fb_lose marks a peer lost and puts the loss into the ring, after all messages of the peer.
void fb_lose(fb_worker *w, fb_peer *p, int64_t why)
{
	if (p->state != PEER_UP)
		return;
	p->state = PEER_LOST;
	w->shared.pending -= p->pending; // they may never complete
	if (w->closed)
		return;
	// The ring has one spare entry per peer for this.
	w->shared.ring[w->shared.arrived++ & w->shared.mask] =
		(am_arrival){ .token = (uint64_t)why, .peer = p->id, .kind = AM_LOST };
}

// fb_lose_all loses every peer: libfabric's queue no longer works.
void fb_lose_all(fb_worker *w, int64_t why)
{
	for (uint32_t i = 0; i < w->config.peers; i++)
		fb_lose(w, &w->peers[i], why);
}

// post_receive gives a receive to libfabric.
static inline void post_receive(fb_worker *w, fb_op *op)
{
	ssize_t error;
	if (op->kind == OP_RECEIVE)
		error = fi_recv(w->ep, am_pool_at(&w->receives, op->slot), sizeof(am_header) + w->config.small, w->desc,
			FI_ADDR_UNSPEC, &op->context);
	else
		error = fi_trecv(w->ep, am_pool_at(&w->large_receives, op->slot),
			w->gathered * (sizeof(am_header) + w->config.max_payload), w->desc, FI_ADDR_UNSPEC, LARGE_TAG, TAG_IGNORED, &op->context);
	if (__builtin_expect(error != 0, 0) && !op->unposted) {
		op->unposted = 1;
		w->unposted++;
	} else if (__builtin_expect(error == 0 && op->unposted, 0)) {
		op->unposted = 0;
		w->unposted--;
	}
}

// fb_post_receives posts the receives that libfabric had no room for.
void fb_post_receives(fb_worker *w)
{
	for (uint32_t i = 0; i < w->receives.count && w->unposted > 0; i++)
		if (w->receiving[i].unposted)
			post_receive(w, &w->receiving[i]);
	for (uint32_t i = 0; i < w->large_receives.count && w->unposted > 0; i++)
		if (w->receiving_large[i].unposted)
			post_receive(w, &w->receiving_large[i]);
}

// keep_early copies a message whose sender is not connected yet. The list has room for all that
// correct peers can send before Connect; others can only fill it up.
static void keep_early(fb_worker *w, const am_header *h, const void *payload, uint64_t size)
{
	if (w->early_count == w->early_size) {
		w->counts.strangers++;
		return;
	}
	fb_early *e = &w->early[w->early_count];
	e->header = *h;
	e->size = size;
	if ((e->data = malloc(size + 1)) == NULL)
		return;
	memcpy(e->data, payload, size);
	w->early_count++;
}

// fb_admit_early moves the messages that a peer sent before it was connected into the ring.
void fb_admit_early(fb_worker *w, fb_peer *p)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < w->early_count; i++) {
		fb_early e = w->early[i];
		uint64_t kind = fb_kind(p, e.header.origin);
		if (kind > AM_LOST) {
			w->early[kept++] = e;
			continue;
		}
		if (kind > AM_REPLY || kind < AM_CALL || p->state != PEER_UP) {
			free(e.data);
			fb_lose(w, p, kind == AM_CLOSE ? AM_CLOSED : AM_CORRUPT);
			continue;
		}
		w->counts.early++;
		w->shared.ring[w->shared.arrived++ & w->shared.mask] = (am_arrival){
			.token = e.header.token, .data = e.data, .size = e.size, .peer = p->id, .kind = kind, .copy = e.data,
		};
	}
	w->early_count = kept;
}

// send_completed frees the slots of a send.
static inline void send_completed(fb_worker *w, fb_op *op)
{
	fb_peer *p = &w->peers[op->peer];
	p->pending--;
	w->shared.pending -= p->state == PEER_UP;
	for (;;) {
		uint32_t next = op->next;
		op->next = 0;
		fb_give_slot(&w->shared, op->slot);
		if (__builtin_expect(next == 0, 1))
			return;
		op = &w->sending[next - 1];
	}
}

// control handles messages that are neither calls nor replies.
static void control(fb_worker *w, fb_peer *p, const am_header *h)
{
	uint64_t kind = fb_kind(p, h->origin);
	if (kind == AM_CLOSE) {
		fb_lose(w, p, AM_CLOSED);
	} else if (kind < AM_CLOSE || kind > AM_PING_END) {
		fb_lose(w, p, AM_CORRUPT);
	} else if (w->probe.on) {
		w->probe.token = h->token;
		w->probe.kind = kind;
		w->probe.peer = p->id;
	}
}

// received puts a message at base into the ring. It returns the arrival, or NULL if it is none.
static inline am_arrival *received(fb_worker *w, char *base, uint64_t length)
{
	am_shared *s = &w->shared;
	am_header *h = (am_header *)base;
	if (__builtin_expect(length < sizeof *h || w->closed, 0)) {
		w->counts.strangers += !w->closed;
		fb_peer *p = length >= sizeof *h ? fb_find(w, h->origin) : NULL;
		if (p != NULL && fb_kind(p, h->origin) == AM_CLOSE)
			fb_lose(w, p, AM_CLOSED); // it waits for nothing more
		return NULL;
	}
	uint64_t size = length - sizeof *h;
	fb_peer *p = fb_find(w, h->origin);
	if (__builtin_expect(p == NULL, 0)) {
		keep_early(w, h, base + sizeof *h, size);
		return NULL;
	}
	if (__builtin_expect(p->state != PEER_UP, 0))
		return NULL;
	uint64_t kind = fb_kind(p, h->origin);
	if (__builtin_expect(kind - AM_CALL > AM_REPLY - AM_CALL, 0)) {
		control(w, p, h);
		return NULL;
	}
	if (__builtin_expect(size > w->config.max_payload, 0)) {
		fb_lose(w, p, AM_CORRUPT);
		return NULL;
	}
	am_arrival *a = &s->ring[s->arrived++ & s->mask];
	a->token = h->token;
	a->data = base + sizeof *h;
	a->size = size;
	a->peer = p->id;
	a->kind = kind;
	a->receive = NULL;
	a->copy = NULL;
	w->counts.received++;
	return a;
}

// received_all puts what a receive has got into the ring: one message, or as many of equal size as its tag
// says. The receive is posted again after the last one, or if there is none.
static inline void received_all(fb_worker *w, fb_op *op, const struct fi_cq_tagged_entry *e)
{
	char *base = am_pool_at(op->kind == OP_RECEIVE ? &w->receives : &w->large_receives, op->slot);
	uint64_t n = op->kind == OP_RECEIVE ? 1 : e->tag >> TAG_COUNT, each = e->len;
	if (__builtin_expect(n != 1, 0)) {
		if (n == 0 || n > w->gathered || e->len % (n * sizeof(uint64_t)) != 0) {
			fb_peer *p = e->len < sizeof(am_header) ? NULL : fb_find(w, ((am_header *)base)->origin);
			if (p != NULL)
				fb_lose(w, p, AM_CORRUPT);
			n = 0;
		} else {
			each = e->len / n;
		}
	}
	am_arrival *last = NULL;
	for (uint64_t i = 0; i < n; i++) {
		am_arrival *a = received(w, base + i * each, each);
		last = a != NULL ? a : last;
	}
	if (__builtin_expect(last != NULL, 1))
		last->receive = op;
	else
		post_receive(w, op);
}

// failed handles the error of an operation.
static void failed(fb_worker *w)
{
	struct fi_cq_err_entry e = { 0 };
	if (fi_cq_readerr(w->cq, &e, 0) != 1)
		return;
	w->counts.errors++;
	fb_op *op = e.op_context;
	if (op == NULL)
		return; // an injected message, of which libfabric does not tell the peer
	if (op->kind == OP_SEND) {
		send_completed(w, op);
		fb_lose(w, &w->peers[op->peer], -(int64_t)e.err);
	} else if (e.err != FI_ECANCELED) {
		post_receive(w, op);
	}
}

enum { COMPLETIONS = 16 };

// fb_read_completions makes libfabric progress and handles what has completed.
void fb_read_completions(fb_worker *w)
{
	struct fi_cq_tagged_entry entries[COMPLETIONS];
	ssize_t n = fi_cq_read(w->cq, entries, COMPLETIONS);
	if (__builtin_expect(n < 0 && n != -FI_EAGAIN, 0)) {
		if (n == -FI_EAVAIL)
			failed(w);
		else
			fb_lose_all(w, n);
		return;
	}
	for (ssize_t i = 0; i < n; i++) {
		fb_op *op = entries[i].op_context;
		if (op->kind == OP_SEND)
			send_completed(w, op);
		else
			received_all(w, op, &entries[i]);
	}
}

static ssize_t read_error;

static ssize_t fail_read(struct fid_cq *cq, void *entries, size_t count)
{
	(void)cq, (void)entries, (void)count;
	return read_error;
}

void fb_fail_reads(fb_worker *w, int error)
{
	static struct fi_ops_cq ops;
	ops = *w->cq->ops;
	ops.read = fail_read;
	read_error = error;
	w->cq->ops = &ops;
}

// release posts the receives of the arrivals that were taken.
static inline void release(fb_worker *w)
{
	am_shared *s = &w->shared;
	for (; w->released < s->taken; w->released++) {
		am_arrival *a = &s->ring[w->released & s->mask];
		if (__builtin_expect(a->receive != NULL, 1))
			post_receive(w, a->receive);
		else
			free(a->copy);
	}
	if (__builtin_expect(w->unposted > 0, 0))
		fb_post_receives(w);
}

// fb_poll frees the memory of arrivals that were taken, and reads completions: once if something
// has arrived already, else until something arrives, at most config.bound times.
void fb_poll(fb_worker *w)
{
	am_shared *s = &w->shared;
	release(w);
	if (__builtin_expect(s->queued > 0, 0))
		fb_flush(w);
	uint32_t bound = s->arrived != s->taken ? 1 : w->config.bound;
	do
		fb_read_completions(w);
	while (s->arrived == s->taken && --bound > 0);
}

// fb_arm makes the descriptor readable with the next completion. It returns 0 if there is work
// now.
int fb_arm(fb_worker *w)
{
	struct fid *queue = &w->cq->fid;
	if (w->shared.arrived != w->shared.taken || w->shared.queued > 0)
		return 0;
	return fi_trywait(w->context->fabric, &queue, 1) == FI_SUCCESS;
}
