//go:build ucx && cgo

#include "shim_internal.h"

uam_peer *uam_find(uam_worker *w, uint64_t nonce)
{
	uam_peer *p = w->last;
	if (p != NULL && p->nonce == nonce)
		return p;
	uint32_t at = (uint32_t)((nonce * 0x9e3779b97f4a7c15u) >> 32) & w->index_mask;
	for (; w->index[at] != 0; at = (at + 1) & w->index_mask) {
		p = &w->peers[w->index[at] - 1];
		if (p->nonce == nonce)
			return w->last = p;
	}
	return NULL;
}

// uam_lose marks a peer lost and has the ring tell it, after all else that came
// from it. The endpoint is closed later, outside of UCX's callbacks.
void uam_lose(uam_worker *w, uam_peer *p, int64_t why)
{
	if (p->state != PEER_UP)
		return;
	p->state = PEER_LOST;
	w->dead = 1;
	// The ring has an entry for the loss of each peer besides its messages.
	uam_arrival *a = &w->shared.ring[w->shared.arrived++ & w->shared.mask];
	a->token = (uint64_t)why;
	a->data = NULL;
	a->size = 0;
	a->peer = p->id;
	a->kind = UAM_LOST;
	a->route = HELD_NOTHING;
}

void uam_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	uam_peer *p = arg;
	(void)ep;
	if (!p->worker->closed)
		uam_lose(p->worker, p, status);
}

// arena_take returns room for size bytes, or NULL. It is given back in the order
// of the ring; a->held is where it ends.
static inline char *arena_take(uam_worker *w, uam_arrival *a, uint64_t size)
{
	uint64_t room = (size + 63) & ~(uint64_t)63, mask = w->arena_size - 1;
	uint64_t begin = w->arena_tail;
	if ((begin & mask) + room > w->arena_size)
		begin = (begin | mask) + 1; // a payload does not wrap
	if (begin + room - w->arena_head > w->arena_size)
		return NULL;
	w->arena_tail = begin + room;
	a->held = (void *)(uintptr_t)w->arena_tail;
	a->route = HELD_ARENA;
	return w->arena + (begin & mask);
}

// copy_payload keeps a payload that UCX takes back.
static inline int copy_payload(uam_worker *w, uam_arrival *a, const void *from, uint64_t size)
{
	a->route = HELD_NOTHING;
	a->data = NULL;
	if (size == 0)
		return 1;
	char *to = arena_take(w, a, size);
	if (__builtin_expect(to == NULL, 0)) {
		if ((to = malloc(size)) == NULL)
			return 0;
		a->held = to;
		a->route = HELD_HEAP;
	}
	memcpy(to, from, size);
	a->data = to;
	w->shared.copied++;
	return 1;
}

// honest says whether a call or reply of a peer is to be taken, and cuts off a
// peer that breaks the protocol.
static inline int honest(uam_worker *w, uam_peer *p, const uam_header *h, uint64_t size)
{
	uam_shared *s = &w->shared;
	if (__builtin_expect(p->state != PEER_UP || w->closed, 0))
		return 0;
	// Entries for losses are spared: what is left is room for every call and
	// reply that honest peers can have under way.
	if (__builtin_expect(UAM_KIND(h->origin) - UAM_CALL > UAM_REPLY - UAM_CALL || size > w->config.max_payload ||
		s->arrived - w->released > s->mask - w->config.peers, 0)) {
		uam_lose(w, p, UAM_CORRUPT);
		return 0;
	}
	return 1;
}

// book returns the entry of the ring for a message, or NULL where there must be
// none. The caller fills in data and counts it in arrived.
static inline uam_arrival *book(uam_worker *w, uam_peer *p, const uam_header *h, uint64_t size)
{
	uam_shared *s = &w->shared;
	if (!honest(w, p, h, size))
		return NULL;
	uam_arrival *a = &s->ring[s->arrived & s->mask];
	a->token = h->token;
	a->size = size;
	a->peer = p->id;
	a->kind = UAM_KIND(h->origin);
	return a;
}

// keep_early copies a message whose sender is not connected yet. Strangers can
// fill the list; what honest peers can send before Connect fits.
static void keep_early(uam_worker *w, const uam_header *h, const void *payload, uint64_t size)
{
	if (w->early_count == w->early_size || size > w->config.max_payload || w->closed) {
		w->shared.strangers++;
		return;
	}
	early_message *e = &w->early[w->early_count];
	e->header = *h;
	e->size = size;
	e->data = malloc(size + 1);
	if (e->data == NULL)
		return;
	memcpy(e->data, payload, size);
	w->early_count++;
}

// control takes messages that are no calls or replies. It says whether it did.
static int control(uam_worker *w, const uam_header *h)
{
	uint32_t kind = UAM_KIND(h->origin);
	if (kind < UAM_FAREWELL || kind > UAM_PING_END)
		return 0;
	uam_peer *p = uam_find(w, UAM_NONCE(h->origin));
	if (kind == UAM_FAREWELL && p == NULL)
		return 0; // kept as an early message
	if (p == NULL || p->state != PEER_UP || w->closed)
		return 1;
	if (kind == UAM_FAREWELL) {
		uam_lose(w, p, UAM_CLOSED);
	} else if (w->probing) {
		w->heard_token = h->token;
		w->heard_kind = kind;
		w->heard_peer = p->id;
	}
	return 1;
}

static inline void accept_copy(uam_worker *w, const uam_header *h, const void *payload, uint64_t size)
{
	if (__builtin_expect(UAM_KIND(h->origin) > UAM_REPLY, 0) && control(w, h))
		return;
	uam_peer *p = uam_find(w, UAM_NONCE(h->origin));
	if (__builtin_expect(p == NULL, 0)) {
		keep_early(w, h, payload, size);
		return;
	}
	uam_arrival *a = book(w, p, h, size);
	if (a != NULL && copy_payload(w, a, payload, size))
		w->shared.arrived++;
}

// on_small gets messages that are a header alone, which UCX takes back.
static ucs_status_t on_small(void *arg, const void *header, size_t length, void *data, size_t data_length,
	const ucp_am_recv_param_t *param)
{
	(void)data, (void)data_length, (void)param;
	uam_worker *w = arg;
	if (__builtin_expect(length < sizeof(uam_header), 0)) {
		w->shared.strangers++;
		return UCS_OK;
	}
	uam_header h; // UCX does not align it
	memcpy(&h, header, sizeof h);
	accept_copy(w, &h, (const char *)header + sizeof h, length - sizeof h);
	return UCS_OK;
}

// announce notes a message to be fetched outside of the callback.
static ucs_status_t announce(uam_worker *w, const uam_header *h, void *descriptor, uint64_t size)
{
	if (w->waiting_count == w->waiting_size || size > w->config.max_payload || w->closed) {
		w->shared.strangers++;
		return UCS_OK;
	}
	fetch *f = &w->waiting[(w->waiting_head + w->waiting_count++) % w->waiting_size];
	f->header = *h;
	f->descriptor = descriptor;
	f->length = size;
	return UCS_INPROGRESS;
}

// on_large gets messages with data behind the header. The data is kept where
// UCX has it if it can spare the memory, and fetched if it was only announced.
static ucs_status_t on_large(void *arg, const void *header, size_t header_length, void *data, size_t size,
	const ucp_am_recv_param_t *param)
{
	uam_worker *w = arg;
	uam_header h;
	if (header_length != sizeof h) {
		w->shared.strangers++;
		return UCS_OK;
	}
	memcpy(&h, header, sizeof h);
	int announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
	uam_peer *p = uam_find(w, UAM_NONCE(h.origin));
	if (announced && (p == NULL || honest(w, p, &h, size)))
		return announce(w, &h, data, size);
	if (announced)
		return UCS_OK; // which drops it
	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) || UAM_KIND(h.origin) > UAM_REPLY || p == NULL) {
		accept_copy(w, &h, data, size);
		return UCS_OK;
	}
	uam_arrival *a = book(w, p, &h, size);
	if (a == NULL)
		return UCS_OK;
	a->data = data;
	a->held = data;
	a->route = HELD_DESCRIPTOR;
	w->shared.arrived++;
	w->shared.kept++;
	return UCS_INPROGRESS;
}

ucs_status_t uam_set_handlers(uam_worker *w)
{
	for (unsigned id = AM_SMALL; id <= AM_LARGE; id++) {
		ucp_am_handler_param_t param = {
			.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
				UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
			.id = id,
			.flags = UCP_AM_FLAG_WHOLE_MSG,
			.cb = id == AM_SMALL ? on_small : on_large,
			.arg = w,
		};
		ucs_status_t status = ucp_worker_set_am_recv_handler(w->ucp, &param);
		if (status != UCS_OK)
			return status;
	}
	return UCS_OK;
}

void uam_admit_early(uam_worker *w, uam_peer *p)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < w->early_count; i++) {
		early_message *e = &w->early[i];
		if (UAM_NONCE(e->header.origin) != p->nonce) {
			w->early[left++] = *e;
			continue;
		}
		accept_copy(w, &e->header, e->data, e->size);
		free(e->data);
	}
	w->early_count = left;
}

static void land(uam_worker *w, fetch *f)
{
	char *payload = uam_pool_at(&w->landing, f->slot);
	uam_peer *p = uam_find(w, UAM_NONCE(f->header.origin));
	uam_arrival *a = NULL;
	if (p == NULL)
		keep_early(w, &f->header, payload, f->length);
	else
		a = book(w, p, &f->header, f->length);
	if (a == NULL) {
		uam_pool_give(&w->landing, f->slot);
		return;
	}
	a->data = payload;
	a->held = f;
	a->route = HELD_LANDING;
	w->shared.arrived++;
}

static void fetched(void *request, ucs_status_t status, size_t length, void *arg)
{
	fetch *f = arg;
	uam_worker *w = f->worker;
	(void)length;
	if (status == UCS_OK)
		land(w, f);
	else
		uam_pool_give(&w->landing, f->slot);
	ucp_request_free(request);
}

// start_fetches has UCX fetch announced messages for which there is room.
static void start_fetches(uam_worker *w)
{
	while (w->waiting_count > 0 && w->landing.left > 0) {
		fetch *announced = &w->waiting[w->waiting_head];
		w->waiting_head = (w->waiting_head + 1) % w->waiting_size;
		w->waiting_count--;
		uint32_t slot = uam_pool_take(&w->landing);
		fetch *f = &w->fetches[slot];
		*f = *announced;
		f->worker = w;
		f->slot = slot;
		ucp_request_param_t param = {
			.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH,
			.cb.recv_am = fetched,
			.user_data = f,
			.memh = w->landing_memory,
		};
		w->shared.rendezvous++;
		void *request = ucp_am_recv_data_nbx(w->ucp, f->descriptor, uam_pool_at(&w->landing, slot), f->length, &param);
		if (request == NULL)
			land(w, f);
		else if (UCS_PTR_IS_ERR(request))
			uam_pool_give(&w->landing, slot);
	}
}

// uam_chores does what must not be done inside a callback of UCX's.
void uam_chores(uam_worker *w)
{
	if (w->waiting_count > 0)
		start_fetches(w);
	if (w->dead)
		uam_bury(w);
}

static void release(uam_worker *w)
{
	uam_shared *s = &w->shared;
	for (; w->released < s->taken; w->released++) {
		uam_arrival *a = &s->ring[w->released & s->mask];
		switch (a->route) {
		case HELD_ARENA:
			w->arena_head = (uint64_t)(uintptr_t)a->held;
			break;
		case HELD_HEAP:
			free(a->held);
			break;
		case HELD_DESCRIPTOR:
			ucp_am_data_release(w->ucp, a->held);
			break;
		case HELD_LANDING:
			uam_pool_give(&w->landing, ((fetch *)a->held)->slot);
			break;
		}
	}
	// Empty, it begins where the cache is warm.
	if (w->released == s->arrived)
		w->arena_head = w->arena_tail = 0;
}

// uam_poll gives back the memory of what was taken, and progresses: once where
// something has arrived already, else until something does, within its bound.
void uam_poll(uam_worker *w)
{
	uam_shared *s = &w->shared;
	release(w);
	uint32_t bound = s->arrived != s->taken ? 1 : w->config.bound;
	do
		uam_progress(w);
	while (s->arrived == s->taken && --bound > 0);
}

int uam_arm(uam_worker *w)
{
	if (w->shared.arrived != w->shared.taken || w->waiting_count > 0 || w->dead)
		return 0;
	return ucp_worker_arm(w->ucp) == UCS_OK;
}
