//go:build ofi && cgo

// What libfabric takes: a ping-pong of two C loops over the worker's endpoint, with the payloads of
// the run and without the ring, the calls from Go into C and Go itself.

#include "shim_internal.h"

#include <time.h>

enum { SPIN_TIMES = 4, SPIN_DECAY = 6 };
enum { LEAST_SPIN = 100000, FIRST_SPIN = 1000000, MOST_SPIN = 2000000, REST = 50000 };

// spun is called from time to time by a thread that waits. It sleeps if the thread has been spinning for long.
static void spun(fb_wait *w, uint64_t now)
{
	static const struct timespec rest = {0, REST};
	if (w->began == 0) {
		w->began = now;
		w->sleep = now + (w->spin == 0 ? FIRST_SPIN : w->spin < LEAST_SPIN ? LEAST_SPIN : w->spin);
	} else if (now >= w->sleep) {
		nanosleep(&rest, NULL);
		w->sleep = now_ns() + LEAST_SPIN;
	}
}

// found is called when a wait has ended.
static void found(fb_wait *w)
{
	w->spin -= w->spin >> SPIN_DECAY;
	if (w->began != 0) {
		uint64_t spin = SPIN_TIMES * (now_ns() - w->began);
		spin = spin < MOST_SPIN ? spin : MOST_SPIN;
		w->spin = w->spin > spin ? w->spin : spin;
		w->began = 0;
	}
	w->spin += w->spin == 0;
}

// send_probe sends a message with size bytes of payload.
static void send_probe(fb_worker *w, fb_peer *p, uint64_t kind, uint64_t token, uint32_t size)
{
	fb_shared *s = &w->shared;
	int small = size <= w->config.small;
	fb_pool *pool = small ? &s->small : &s->large;
	if (pool->left == 0 || p->state != PEER_UP)
		return; // the peer does not take part and has not read earlier pings
	uint32_t slot = fb_pool_take(pool);
	fb_header *h = (fb_header *)fb_pool_at(pool, slot);
	h->token = token;
	h->origin = s->nonce ^ kind;
	if (!small)
		slot += s->small.count;
	int error = fb_post(w, p, slot, size);
	if (error == -FI_EAGAIN)
		s->sends[s->queued++] = (fb_send){ .slot = slot, .peer = p->id, .size = size };
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
static int trip(fb_worker *w, fb_peer *p, fb_wait *wait, uint64_t token, uint32_t size, uint64_t end)
{
	w->probe_kind = 0;
	send_probe(w, p, FB_PING, token, size);
	for (uint32_t spins = 1;; spins++) {
		progress(w);
		if (w->probe_kind == FB_PONG && w->probe_token == token) {
			found(wait);
			return 1;
		}
		if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (p->state != PEER_UP || now > end)
				return 0;
			spun(wait, now);
		}
	}
}

// fb_probe_lead does round trips with size bytes of payload for slice_ns and appends the mean of each batch, in
// nanoseconds, to trips. It returns -1 if the peer is lost.
int fb_probe_lead(fb_worker *w, uint32_t peer, uint32_t session, uint32_t size, uint64_t slice_ns, fb_wait *wait, double *trips, uint32_t *filled, uint32_t most)
{
	fb_peer *p = &w->peers[peer];
	uint64_t start = now_ns(), end = start + slice_ns;
	w->probing = 1;
	while (p->state == PEER_UP && start < end && *filled < most) {
		int done = 0;
		while (done < FB_BATCH && trip(w, p, wait, (uint64_t)session << 32 | ++w->probe_number, size, end))
			done++;
		uint64_t now = now_ns();
		if (done == FB_BATCH)
			trips[(*filled)++] = (double)(now - start) / FB_BATCH;
		start = now;
	}
	w->probing = 0;
	return p->state == PEER_UP ? 0 : -1;
}

// fb_probe_end tells the follower that the session has ended.
void fb_probe_end(fb_worker *w, uint32_t peer, uint32_t session)
{
	send_probe(w, &w->peers[peer], FB_PING_END, (uint64_t)session << 32, 0);
	progress(w);
}

// fb_probe_follow answers pings with size bytes of payload for slice_ns. It ignores sessions up to done, which are
// left over from a failed probe. It returns 1 when the leader has ended the current session,
// and -1 if the peer is lost.
int fb_probe_follow(fb_worker *w, uint32_t peer, uint32_t size, uint64_t slice_ns, fb_wait *wait, uint32_t done, uint32_t *current)
{
	fb_peer *p = &w->peers[peer];
	uint64_t end = now_ns() + slice_ns;
	int result = 0;
	w->probing = 1;
	for (uint32_t spins = 1; result == 0; spins++) {
		w->probe_kind = 0;
		progress(w);
		uint32_t session = w->probe_token >> 32;
		if (w->probe_kind == FB_PING && w->probe_peer == peer && session > done) {
			*current = session;
			found(wait);
			send_probe(w, p, FB_PONG, w->probe_token, size);
		} else if (w->probe_kind == FB_PING_END && session == *current && *current > done) {
			result = 1;
		} else if (p->state != PEER_UP) {
			result = -1;
		} else if ((spins & 63) == 0) {
			uint64_t now = now_ns();
			if (now > end)
				break;
			spun(wait, now);
		}
	}
	w->probing = 0;
	return result;
}
