//go:build ucx && cgo

#include "shim_internal.h"

static void send_done(void *request, ucs_status_t status, void *arg)
{
	slot_ref *ref = arg;
	ref->worker->shared.pending--;
	uam_give_slot(ref->worker, ref->slot);
	// On failure UCX also calls the endpoint's error handler.
	(void)status;
	ucp_request_free(request);
}

// uam_set_send_params fills in what all sends of a worker have in common.
void uam_set_send_params(uam_worker *w)
{
	w->small_param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
	w->small_param.cb.send = send_done;
	w->large_param = w->small_param;
	w->large_param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
	w->large_param.memh = w->send_memory;
}

// PENDING_ROUNDS is how often a flush progresses while sends are pending.
enum { PENDING_ROUNDS = 16 };

// sent ends a send of a slot's message. UCX has not completed a request yet.
static inline void sent(uam_worker *w, uam_peer *p, uint32_t slot, void *request)
{
	if (__builtin_expect(UCS_PTR_IS_PTR(request), 0)) {
		w->shared.pending++; // until send_done
		w->counts.pended++;
		return;
	}
	uam_give_slot(w, slot);
	if (__builtin_expect(request != NULL, 0))
		uam_lose(w, p, UCS_PTR_STATUS(request));
}

static inline char *slot_at(am_shared *s, uint32_t slot)
{
	return slot < s->small.count ? am_pool_at(&s->small, slot) : am_pool_at(&s->large, slot - s->small.count);
}

static void send_one(uam_worker *w, uam_peer *p, const am_send *m)
{
	char *base = slot_at(&w->shared, m->slot);
	void *request;
	if (m->size <= w->config.eager) {
		w->small_param.user_data = &w->refs[m->slot];
		request = ucp_am_send_nbx(p->ep, AM_SMALL, base, sizeof(am_header) + m->size, NULL, 0, &w->small_param);
	} else {
		w->large_param.user_data = &w->refs[m->slot];
		request = ucp_am_send_nbx(p->ep, AM_LARGE, base, sizeof(am_header), base + sizeof(am_header), m->size,
			&w->large_param);
	}
	sent(w, p, m->slot, request);
}

// pack_size returns what a message takes of a pack.
static inline uint64_t pack_size(const am_send *m) { return sizeof(uam_packed) + ((m->size + 7) & ~(uint64_t)7); }

// packable returns how many of the next messages of the queue fit into one pack: those to one peer.
static uint32_t packable(uam_worker *w, const am_send *m, uint32_t left)
{
	uint32_t n = 0;
	for (uint64_t room = w->packs.stride; n < left && m[n].peer == m->peer && m[n].size <= room; n++) {
		if (pack_size(&m[n]) > room)
			break;
		room -= pack_size(&m[n]);
	}
	return n;
}

static void send_pack(uam_worker *w, uam_peer *p, const am_send *m, uint32_t n)
{
	uint32_t slot = am_pool_take(&w->packs);
	char *base = am_pool_at(&w->packs, slot), *at = base;
	for (const am_send *end = m + n; m < end; m++) {
		const char *message = slot_at(&w->shared, m->slot);
		uam_packed *packed = (uam_packed *)at;
		packed->header = *(const am_header *)message;
		packed->size = m->size;
		uint64_t *last = (uint64_t *)(at + pack_size(m)) - 1;
		if (m->size > 0)
			*last = 0;
		memcpy(packed + 1, message + sizeof(am_header), m->size);
		at += pack_size(m);
		w->counts.packed_bytes += m->size;
		uam_give_slot(w, m->slot);
	}
	w->counts.packed += n;
	slot += w->shared.small.count + w->shared.large.count;
	w->small_param.user_data = &w->refs[slot];
	sent(w, p, slot, ucp_am_send_nbx(p->ep, AM_PACK, base, at - base, NULL, 0, &w->small_param));
}

// uam_flush sends the queue. It drops messages to a lost peer.
void uam_flush(uam_worker *w)
{
	am_shared *s = &w->shared;
	for (uint32_t i = 0, n; i < s->queued; i += n) {
		am_send *m = &s->sends[i];
		uam_peer *p = &w->peers[m->peer];
		n = 1;
		if (__builtin_expect(p->state != PEER_UP, 0)) {
			uam_give_slot(w, m->slot);
			continue;
		}
		if (w->packs.left > 0 && s->queued - i > 1 && (n = packable(w, m, s->queued - i)) > 1) {
			send_pack(w, p, m, n);
		} else {
			n = 1;
			send_one(w, p, m);
		}
		w->counts.sent += n;
	}
	s->queued = 0;
	// A connection in set-up or a full medium needs progress, and the next poll may
	// be far away.
	for (int round = 0; s->pending > 0 && round < PENDING_ROUNDS; round++)
		uam_progress(w);
}

static void control_done(void *request, ucs_status_t status, void *arg)
{
	(void)status;
	free(arg);
	ucp_request_free(request);
}

// uam_send_control sends a header alone.
void uam_send_control(uam_worker *w, uam_peer *p, uint64_t kind, uint64_t token)
{
	am_header *h = malloc(sizeof *h);
	if (h == NULL)
		return;
	h->token = token;
	h->origin = w->shared.nonce ^ kind;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = control_done,
		.user_data = h,
	};
	if (!UCS_PTR_IS_PTR(ucp_am_send_nbx(p->ep, AM_SMALL, h, sizeof *h, NULL, 0, &param)))
		free(h);
}
