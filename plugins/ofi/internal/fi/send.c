//go:build ofi && cgo

#include "shim_internal.h"

// fb_post gives a message to libfabric. On success the slot is libfabric's, or free again.
int fb_post(fb_worker *w, fb_peer *p, uint32_t slot, uint64_t size)
{
	am_shared *s = &w->shared;
	char *base = fb_slot(s, slot);
	uint64_t length = sizeof(am_header) + size;
	fb_op *op = &w->sending[slot];
	ssize_t error;
	if (__builtin_expect(length <= w->inject && size <= w->config.small, 1)) {
		error = fi_inject(w->ep, base, length, p->address);
		if (error == 0) {
			fb_give_slot(s, slot);
			w->counts.injected++;
			w->counts.sent++;
		}
		return error;
	}
	op->peer = p->id;
	if (size <= w->config.small)
		error = fi_send(w->ep, base, length, w->desc, p->address, &op->context);
	else
		error = fi_tsend(w->ep, base, length, w->desc, p->address, LARGE_TAG | 1 << TAG_COUNT, &op->context);
	if (error == 0) {
		p->pending++;
		s->pending++;
		w->counts.sent++;
	}
	return error;
}

// gatherable returns how many of the next left messages of the queue one send can gather: large ones
// of one size to one peer, whose headers stay aligned behind each other.
static inline uint32_t gatherable(fb_worker *w, const am_send *m, uint32_t left)
{
	uint32_t n = 1, limit = left < w->gather ? left : w->gather;
	if (m->size <= w->config.small || m->size % sizeof(uint64_t) != 0)
		return 1;
	while (n < limit && m[n].peer == m->peer && m[n].size == m->size)
		n++;
	return n;
}

// post_gathered gives n messages to libfabric as one.
static int post_gathered(fb_worker *w, fb_peer *p, const am_send *m, uint32_t n)
{
	am_shared *s = &w->shared;
	struct iovec segments[GATHER_MOST];
	void *desc[GATHER_MOST];
	for (uint32_t i = 0; i < n; i++) {
		segments[i] = (struct iovec){ fb_slot(s, m[i].slot), sizeof(am_header) + m->size };
		desc[i] = w->desc;
	}
	fb_op *op = &w->sending[m->slot];
	ssize_t error = fi_tsendv(w->ep, segments, desc, n, p->address, LARGE_TAG | (uint64_t)n << TAG_COUNT, &op->context);
	if (error != 0)
		return error;
	op->peer = p->id;
	for (uint32_t i = 0; i + 1 < n; i++)
		w->sending[m[i].slot].next = m[i + 1].slot + 1;
	p->pending++;
	s->pending++;
	w->counts.sent++;
	w->counts.gathered += n;
	return 0;
}

// fb_forge sends the message that was queued last as one that gathers n, for tests.
int fb_forge(fb_worker *w, uint32_t n)
{
	am_send m = w->shared.sends[--w->shared.queued];
	fb_peer *p = &w->peers[m.peer];
	fb_op *op = &w->sending[m.slot];
	op->peer = p->id;
	p->pending++;
	w->shared.pending++;
	return fi_tsend(w->ep, fb_slot(&w->shared, m.slot), sizeof(am_header) + m.size, w->desc, p->address,
		LARGE_TAG | (uint64_t)n << TAG_COUNT, &op->context);
}

// send_queue sends what libfabric has room for and keeps the rest, in order for each peer.
static void send_queue(fb_worker *w)
{
	am_shared *s = &w->shared;
	uint32_t kept = 0, queued = s->queued;
	w->flush++;
	for (uint32_t i = 0, n; i < queued; i += n) {
		am_send m = s->sends[i];
		fb_peer *p = &w->peers[m.peer];
		if (__builtin_expect(p->state != PEER_UP, 0)) {
			fb_give_slot(s, m.slot);
			n = 1;
			continue;
		}
		n = gatherable(w, &s->sends[i], queued - i);
		int error = p->blocked == w->flush ? -FI_EAGAIN : n > 1 ? post_gathered(w, p, &s->sends[i], n) :
			fb_post(w, p, m.slot, m.size);
		if (__builtin_expect(error == 0, 1))
			continue;
		if (error == -FI_EAGAIN) {
			p->blocked = w->flush;
			w->counts.retried++;
			for (uint32_t j = 0; j < n; j++)
				s->sends[kept++] = s->sends[i + j];
			continue;
		}
		for (uint32_t j = 0; j < n; j++)
			fb_give_slot(s, s->sends[i + j].slot);
		fb_lose(w, p, error);
	}
	s->queued = kept;
}

// FLUSH_ROUNDS is how often a flush makes progress while libfabric takes no message: a connection
// in set-up or a full medium needs it, and the next poll may be far away.
enum { FLUSH_ROUNDS = 16 };

void fb_flush(fb_worker *w)
{
	am_shared *s = &w->shared;
	if (s->queued > 0)
		send_queue(w);
	for (int round = 0; __builtin_expect(s->queued > 0, 0) && round < FLUSH_ROUNDS; round++) {
		fb_read_completions(w);
		send_queue(w);
	}
}

// fb_enqueue queues a header alone. It returns 0 if there is no slot.
int fb_enqueue(fb_worker *w, uint32_t peer, uint32_t kind, uint64_t token)
{
	am_shared *s = &w->shared;
	if (s->small.left == 0)
		return 0;
	uint32_t slot = am_pool_take(&s->small);
	am_header *h = (am_header *)am_pool_at(&s->small, slot);
	h->token = token;
	h->origin = s->nonce ^ kind;
	s->sends[s->queued++] = (am_send){ .slot = slot, .peer = peer };
	return 1;
}

// tell_closing tells each peer that the worker closes, once libfabric has completed what the peer is sent:
// AM_CLOSE is a plain message, and would overtake a large one. It returns how many peers are still to be told.
static uint32_t tell_closing(fb_worker *w)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < w->config.peers; i++) {
		fb_peer *p = &w->peers[i];
		if (p->state != PEER_UP || p->told)
			continue;
		int queued = w->shared.queued > 0 && p->blocked == w->flush;
		p->told = !queued && p->pending == 0 && fb_enqueue(w, i, AM_CLOSE, 0);
		left += !p->told;
	}
	return left;
}

// fb_drain sends what is left of the queue, and tells the peers if the worker closes.
uint32_t fb_drain(fb_worker *w, uint32_t rounds)
{
	am_shared *s = &w->shared;
	uint32_t untold = 0;
	for (; rounds > 0; rounds--) {
		if (s->queued > 0)
			send_queue(w);
		untold = w->closed ? tell_closing(w) : 0;
		if (s->queued + s->pending + untold == 0)
			break;
		fb_read_completions(w);
	}
	return s->queued + s->pending + untold;
}
