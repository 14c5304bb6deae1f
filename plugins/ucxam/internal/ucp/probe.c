//go:build ucx && cgo

#include "shim_internal.h"

typedef uam_worker am_worker;
typedef uam_peer am_peer;
#define AM_NAME(name) uam_##name

// uam_probe_limit returns the payload that a probe can have: that of a message which is a header
// alone. UCX may announce longer ones and have them fetched.
uint64_t uam_probe_limit(uam_worker *w)
{
	return w->config.eager < w->config.max_payload ? w->config.eager : w->config.max_payload;
}

// send_probe sends a message with size bytes of payload, at most config.eager.
static void send_probe(uam_worker *w, uam_peer *p, uint64_t kind, uint64_t token, uint32_t size)
{
	am_shared *s = &w->shared;
	int small = sizeof(am_header) + size <= s->small.stride;
	am_pool *pool = small ? &s->small : &s->large;
	if (pool->left == 0 || p->state != PEER_UP)
		return; // the peer does not take part and has not read earlier pings
	uint32_t slot = am_pool_take(pool);
	am_header *h = (am_header *)am_pool_at(pool, slot);
	if (!small)
		slot += s->small.count;
	h->token = token;
	h->origin = w->shared.nonce ^ kind;
	w->small_param.user_data = &w->refs[slot];
	void *request = ucp_am_send_nbx(p->ep, AM_SMALL, h, sizeof *h + size, NULL, 0, &w->small_param);
	if (UCS_PTR_IS_PTR(request))
		w->shared.pending++;
	else
		uam_give_slot(w, slot);
}

static void progress(uam_worker *w) { uam_progress(w); }

#include "amlib_probe.h"
