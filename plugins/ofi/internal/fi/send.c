//go:build ofi && cgo

#include "shim_internal.h"

// fb_post gives a message to libfabric. On success the slot is libfabric's, or free again.
int fb_post(fb_worker *w, fb_peer *p, uint32_t slot, uint64_t size)
{
	fb_shared *s = &w->shared;
	char *base = fb_slot(s, slot);
	uint64_t length = sizeof(fb_header) + size;
	fb_op *op = &w->sending[slot];
	ssize_t error;
	if (__builtin_expect(length <= w->inject && size <= w->config.small, 1)) {
		error = fi_inject(w->ep, base, length, p->address);
		if (error == 0) {
			fb_give_slot(s, slot);
			s->injected++;
			s->sent++;
		}
		return error;
	}
	op->peer = p->id;
	if (size <= w->config.small)
		error = fi_send(w->ep, base, length, w->desc, p->address, &op->context);
	else
		error = fi_tsend(w->ep, base, length, w->desc, p->address, LARGE_TAG, &op->context);
	if (error == 0) {
		p->pending++;
		s->pending++;
		s->sent++;
	}
	return error;
}

// send_queue sends what libfabric has room for and keeps the rest, in order for each peer.
static void send_queue(fb_worker *w)
{
	fb_shared *s = &w->shared;
	uint32_t kept = 0, queued = s->queued;
	w->flush++;
	for (uint32_t i = 0; i < queued; i++) {
		fb_send m = s->sends[i];
		fb_peer *p = &w->peers[m.peer];
		if (__builtin_expect(p->state != PEER_UP, 0)) {
			fb_give_slot(s, m.slot);
			continue;
		}
		int error = p->blocked == w->flush ? -FI_EAGAIN : fb_post(w, p, m.slot, m.size);
		if (__builtin_expect(error == 0, 1))
			continue;
		if (error == -FI_EAGAIN) {
			p->blocked = w->flush;
			s->retried++;
			s->sends[kept++] = m;
			continue;
		}
		fb_give_slot(s, m.slot);
		fb_lose(w, p, error);
	}
	s->queued = kept;
}

// FLUSH_ROUNDS is how often a flush makes progress while libfabric takes no message: a connection
// in set-up or a full medium needs it, and the next poll may be far away.
enum { FLUSH_ROUNDS = 16 };

void fb_flush(fb_worker *w)
{
	fb_shared *s = &w->shared;
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
	fb_shared *s = &w->shared;
	if (s->small.left == 0)
		return 0;
	uint32_t slot = fb_pool_take(&s->small);
	fb_header *h = (fb_header *)fb_pool_at(&s->small, slot);
	h->token = token;
	h->origin = s->nonce ^ kind;
	s->sends[s->queued++] = (fb_send){ .slot = slot, .peer = peer };
	return 1;
}

// tell_closing tells each peer that the worker closes, once libfabric has completed what the peer is sent:
// FB_CLOSE is a plain message, and would overtake a large one. It returns how many peers are still to be told.
static uint32_t tell_closing(fb_worker *w)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < w->config.peers; i++) {
		fb_peer *p = &w->peers[i];
		if (p->state != PEER_UP || p->told)
			continue;
		int queued = w->shared.queued > 0 && p->blocked == w->flush;
		p->told = !queued && p->pending == 0 && fb_enqueue(w, i, FB_CLOSE, 0);
		left += !p->told;
	}
	return left;
}

// fb_drain sends what is left of the queue, and tells the peers if the worker closes.
uint32_t fb_drain(fb_worker *w, uint32_t rounds)
{
	fb_shared *s = &w->shared;
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
