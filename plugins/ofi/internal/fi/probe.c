//go:build ofi && cgo

#include "shim_internal.h"

typedef fb_worker am_worker;
typedef fb_peer am_peer;
#define AM_NAME(name) fb_##name

// send_probe sends a message with size bytes of payload.
static void send_probe(fb_worker *w, fb_peer *p, uint64_t kind, uint64_t token, uint32_t size)
{
	am_shared *s = &w->shared;
	int small = size <= w->config.small;
	am_pool *pool = small ? &s->small : &s->large;
	if (pool->left == 0 || p->state != PEER_UP)
		return; // the peer does not take part and has not read earlier pings
	uint32_t slot = am_pool_take(pool);
	am_header *h = (am_header *)am_pool_at(pool, slot);
	h->token = token;
	h->origin = s->nonce ^ kind;
	if (!small)
		slot += s->small.count;
	int error = fb_post(w, p, slot, size);
	if (error == -FI_EAGAIN)
		s->sends[s->queued++] = (am_send){ .slot = slot, .peer = p->id, .size = size };
	else if (error != 0)
		fb_give_slot(s, slot);
}

// progress reads completions, and sends what libfabric had no room for.
static void progress(fb_worker *w)
{
	if (__builtin_expect(w->shared.queued > 0, 0))
		fb_drain(w, 1);
	else
		fb_read_completions(w);
}

#include "amlib_probe.h"
