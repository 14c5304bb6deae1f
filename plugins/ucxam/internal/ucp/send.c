//go:build ucx && cgo

#include "shim_internal.h"

static void send_done(void *request, ucs_status_t status, void *arg)
{
	slot_ref *ref = arg;
	ref->worker->shared.pending--;
	uam_give_slot(&ref->worker->shared, ref->slot);
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

// uam_flush sends the queue. It drops messages to a lost peer.
void uam_flush(uam_worker *w)
{
	uam_shared *s = &w->shared;
	for (uint32_t i = 0; i < s->queued; i++) {
		uam_send *m = &s->sends[i];
		uam_peer *p = &w->peers[m->peer];
		if (__builtin_expect(p->state != PEER_UP, 0)) {
			uam_give_slot(s, m->slot);
			continue;
		}
		char *base = m->slot < s->small.count ? uam_pool_at(&s->small, m->slot)
						      : uam_pool_at(&s->large, m->slot - s->small.count);
		slot_ref *ref = &w->refs[m->slot];
		void *request;
		if (m->size <= w->config.eager) {
			w->small_param.user_data = ref;
			request = ucp_am_send_nbx(p->ep, AM_SMALL, base, sizeof(uam_header) + m->size, NULL, 0, &w->small_param);
		} else {
			w->large_param.user_data = ref;
			request = ucp_am_send_nbx(p->ep, AM_LARGE, base, sizeof(uam_header), base + sizeof(uam_header), m->size,
				&w->large_param);
		}
		s->sent++;
		if (__builtin_expect(request == NULL, 1)) {
			uam_give_slot(s, m->slot);
		} else if (UCS_PTR_IS_ERR(request)) {
			uam_give_slot(s, m->slot);
			uam_lose(w, p, UCS_PTR_STATUS(request));
		} else {
			s->pending++; // until send_done
			s->pended++;
		}
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
	uam_header *h = malloc(sizeof *h);
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
