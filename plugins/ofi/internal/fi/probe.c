//go:build ofi && cgo

// What libfabric takes: a ping-pong of two C loops over the worker's endpoint, with the payloads of
// the run and without the ring, the calls from Go into C and Go itself.

#include "shim_internal.h"

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

// trip does one round trip. It returns 0 if there is no pong before end.
static int trip(fb_worker *w, fb_peer *p, am_wait *wait, uint64_t token, uint32_t size, uint64_t end)
{
	w->probe_kind = 0;
	send_probe(w, p, AM_PING, token, size);
	for (uint32_t spins = 1;; spins++) {
		progress(w);
		if (w->probe_kind == AM_PONG && w->probe_token == token) {
			am_found(wait);
			return 1;
		}
		if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (p->state != PEER_UP || now > end)
				return 0;
			am_spun(wait, now);
		}
	}
}

// fb_probe_lead does round trips with size bytes of payload for slice_ns and appends the mean of each batch, in
// nanoseconds, to trips. It returns -1 if the peer is lost.
int fb_probe_lead(fb_worker *w, uint32_t peer, uint32_t session, uint32_t size, uint64_t slice_ns, am_wait *wait, double *trips, uint32_t *filled, uint32_t most)
{
	fb_peer *p = &w->peers[peer];
	uint64_t start = now_ns(), end = start + slice_ns;
	w->probing = 1;
	while (p->state == PEER_UP && start < end && *filled < most) {
		int done = 0;
		while (done < AM_BATCH && trip(w, p, wait, (uint64_t)session << 32 | ++w->probe_number, size, end))
			done++;
		uint64_t now = now_ns();
		if (done == AM_BATCH)
			trips[(*filled)++] = (double)(now - start) / AM_BATCH;
		start = now;
	}
	w->probing = 0;
	return p->state == PEER_UP ? 0 : -1;
}

// fb_probe_end tells the follower that the session has ended.
void fb_probe_end(fb_worker *w, uint32_t peer, uint32_t session)
{
	send_probe(w, &w->peers[peer], AM_PING_END, (uint64_t)session << 32, 0);
	progress(w);
}

// fb_probe_follow answers pings with size bytes of payload for slice_ns. It ignores sessions up to done, which are
// left over from a failed probe. It returns 1 when the leader has ended the current session,
// and -1 if the peer is lost.
int fb_probe_follow(fb_worker *w, uint32_t peer, uint32_t size, uint64_t slice_ns, am_wait *wait, uint32_t done, uint32_t *current)
{
	fb_peer *p = &w->peers[peer];
	uint64_t end = now_ns() + slice_ns;
	int result = 0;
	w->probing = 1;
	for (uint32_t spins = 1; result == 0; spins++) {
		w->probe_kind = 0;
		progress(w);
		uint32_t session = w->probe_token >> 32;
		if (w->probe_kind == AM_PING && w->probe_peer == peer && session > done) {
			*current = session;
			am_found(wait);
			send_probe(w, p, AM_PONG, w->probe_token, size);
		} else if (w->probe_kind == AM_PING_END && session == *current && *current > done) {
			result = 1;
		} else if (p->state != PEER_UP) {
			result = -1;
		} else if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (now > end)
				break;
			am_spun(wait, now);
		}
	}
	w->probing = 0;
	return result;
}
