//go:build ucx && cgo

#include "shim_internal.h"

// arena_take returns size bytes of the arena, or NULL. They are freed in ring order;
// a->held is their end.
static inline char *arena_take(uam_worker *w, am_arrival *a, uint64_t size)
{
	uint64_t room = (size + 63) & ~(uint64_t)63, mask = w->arena_size - 1;
	uint64_t begin = w->arena_tail;
	if ((begin & mask) + room > w->arena_size)
		begin = (begin | mask) + 1; // a payload must not wrap
	if (begin + room - w->arena_head > w->arena_size)
		return NULL;
	w->arena_tail = begin + room;
	a->held = (void *)(uintptr_t)w->arena_tail;
	a->route = HELD_ARENA;
	return w->arena + (begin & mask);
}

// copy_payload copies a payload whose memory UCX reuses. It returns 0 without memory.
static inline int copy_payload(uam_worker *w, am_arrival *a, const void *from, uint64_t size)
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
	w->counts.copied++;
	w->counts.copied_bytes += size;
	return 1;
}

// acceptable reports whether a call or reply of a peer may enter the ring. It cuts off a
// peer that breaks the protocol.
static inline int acceptable(uam_worker *w, uam_peer *p, const am_header *h, uint64_t size)
{
	am_shared *s = &w->shared;
	if (__builtin_expect(p->state != PEER_UP || w->closed, 0))
		return 0;
	// The ring keeps one entry per peer for its loss. The others hold every call
	// and reply that correct peers can have in flight.
	if (__builtin_expect(uam_kind(p, h->origin) - AM_CALL > AM_REPLY - AM_CALL || size > w->config.max_payload ||
		s->arrived - w->released > s->mask - w->config.peers, 0)) {
		uam_lose(w, p, AM_CORRUPT);
		return 0;
	}
	return 1;
}

// next_entry returns the ring's entry for a message, or NULL if the message is not
// acceptable. The caller fills in data and increments arrived.
static inline am_arrival *next_entry(uam_worker *w, uam_peer *p, const am_header *h, uint64_t size)
{
	am_shared *s = &w->shared;
	if (!acceptable(w, p, h, size))
		return NULL;
	am_arrival *a = &s->ring[s->arrived & s->mask];
	a->token = h->token;
	a->size = size;
	a->peer = p->id;
	a->kind = uam_kind(p, h->origin);
	return a;
}

// keep_early copies a message whose sender is not connected yet. The list has room for all
// that correct peers can send before Connect; others can only fill it up.
static void keep_early(uam_worker *w, const am_header *h, const void *payload, uint64_t size)
{
	if (w->early_count == w->early_size || size > w->config.max_payload || w->closed) {
		w->counts.strangers++;
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

// control handles messages other than calls and replies. It returns 1 if it did.
static int control(uam_worker *w, uam_peer *p, const am_header *h)
{
	uint64_t kind = uam_kind(p, h->origin);
	if (kind < AM_CLOSE || kind > AM_PING_END)
		return 0;
	if (p->state != PEER_UP || w->closed)
		return 1;
	if (kind == AM_CLOSE) {
		uam_lose(w, p, AM_CLOSED);
	} else if (w->probe.on) {
		w->probe.token = h->token;
		w->probe.kind = kind;
		w->probe.peer = p->id;
	}
	return 1;
}

static inline void accept_copy(uam_worker *w, const am_header *h, const void *payload, uint64_t size)
{
	uam_peer *p = uam_find(w, h->origin);
	if (__builtin_expect(p == NULL, 0)) {
		keep_early(w, h, payload, size);
		return;
	}
	if (__builtin_expect(uam_kind(p, h->origin) > AM_REPLY, 0) && control(w, p, h))
		return;
	am_arrival *a = next_entry(w, p, h, size);
	if (a != NULL && copy_payload(w, a, payload, size))
		w->shared.arrived++;
}

// on_small receives messages that are a header alone. UCX reuses their memory.
static ucs_status_t on_small(void *arg, const void *header, size_t length, void *data, size_t data_length,
	const ucp_am_recv_param_t *param)
{
	(void)data, (void)data_length, (void)param;
	uam_worker *w = arg;
	if (__builtin_expect(length < sizeof(am_header), 0)) {
		w->counts.strangers++;
		return UCS_OK;
	}
	am_header h; // UCX does not align its copy
	memcpy(&h, header, sizeof h);
	accept_copy(w, &h, (const char *)header + sizeof h, length - sizeof h);
	return UCS_OK;
}

// on_pack receives several messages as one, a header alone. It cuts off a peer whose pack does not end with a message.
static ucs_status_t on_pack(void *arg, const void *header, size_t length, void *data, size_t data_length,
	const ucp_am_recv_param_t *param)
{
	(void)data, (void)data_length, (void)param;
	uam_worker *w = arg;
	const char *at = header;
	uam_packed m = { 0 }; // UCX does not align its copy
	while (length >= sizeof m) {
		memcpy(&m, at, sizeof m);
		at += sizeof m;
		length -= sizeof m;
		if (m.size > length || ((m.size + 7) & ~(uint64_t)7) > length)
			break;
		accept_copy(w, &m.header, at, m.size);
		at += (m.size + 7) & ~(uint64_t)7;
		length -= (m.size + 7) & ~(uint64_t)7;
		if (length == 0)
			return UCS_OK;
	}
	uam_peer *p = uam_find(w, m.header.origin);
	if (p == NULL)
		w->counts.strangers++;
	else if (!w->closed)
		uam_lose(w, p, AM_CORRUPT);
	return UCS_OK;
}

// defer_fetch queues a rendezvous, which must not start in the callback.
static ucs_status_t defer_fetch(uam_worker *w, const am_header *h, void *descriptor, uint64_t size)
{
	if (w->deferred_count == w->deferred_size || size > w->config.max_payload || w->closed) {
		w->counts.strangers++;
		return UCS_OK;
	}
	fetch *f = &w->deferred[(w->deferred_head + w->deferred_count++) % w->deferred_size];
	f->header = *h;
	f->descriptor = descriptor;
	f->length = size;
	return UCS_INPROGRESS;
}

// on_large receives messages with data after the header. The data stays in UCX's memory if
// UCX can lend it, else it is copied; a rendezvous is fetched later.
static ucs_status_t on_large(void *arg, const void *header, size_t header_length, void *data, size_t size,
	const ucp_am_recv_param_t *param)
{
	uam_worker *w = arg;
	am_header h;
	if (header_length != sizeof h) {
		w->counts.strangers++;
		return UCS_OK;
	}
	memcpy(&h, header, sizeof h);
	int rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
	uam_peer *p = uam_find(w, h.origin);
	if (rendezvous && (p == NULL || acceptable(w, p, &h, size)))
		return defer_fetch(w, &h, data, size);
	if (rendezvous)
		return UCS_OK; // drops the message
	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) || p == NULL || uam_kind(p, h.origin) > AM_REPLY) {
		accept_copy(w, &h, data, size);
		return UCS_OK;
	}
	am_arrival *a = next_entry(w, p, &h, size);
	if (a == NULL)
		return UCS_OK;
	a->data = data;
	a->held = data;
	a->route = HELD_DESCRIPTOR;
	w->shared.arrived++;
	w->counts.kept++;
	return UCS_INPROGRESS;
}

ucs_status_t uam_set_handlers(uam_worker *w)
{
	static const ucp_am_recv_callback_t handlers[] = { [AM_SMALL] = on_small, [AM_LARGE] = on_large, [AM_PACK] = on_pack };
	for (unsigned id = AM_SMALL; id <= AM_PACK; id++) {
		ucp_am_handler_param_t param = {
			.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
				UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
			.id = id,
			.flags = UCP_AM_FLAG_WHOLE_MSG,
			.cb = handlers[id],
			.arg = w,
		};
		ucs_status_t status = ucp_worker_set_am_recv_handler(w->ucp, &param);
		if (status != UCS_OK)
			return status;
	}
	return UCS_OK;
}

// uam_admit_early delivers the messages that a peer sent before it was connected here.
void uam_admit_early(uam_worker *w, uam_peer *p)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < w->early_count; i++) {
		early_message *e = &w->early[i];
		if (uam_kind(p, e->header.origin) > AM_LOST) {
			w->early[left++] = *e;
			continue;
		}
		accept_copy(w, &e->header, e->data, e->size);
		free(e->data);
	}
	w->early_count = left;
}

// fetch_done puts a fetched message into the ring.
static void fetch_done(uam_worker *w, fetch *f)
{
	char *payload = am_pool_at(&w->fetch_pool, f->slot);
	uam_peer *p = uam_find(w, f->header.origin);
	am_arrival *a = NULL;
	if (p == NULL)
		keep_early(w, &f->header, payload, f->length);
	else
		a = next_entry(w, p, &f->header, f->length);
	if (a == NULL) {
		am_pool_give(&w->fetch_pool, f->slot);
		return;
	}
	a->data = payload;
	a->held = f;
	a->route = HELD_FETCHED;
	w->shared.arrived++;
}

static void fetch_completed(void *request, ucs_status_t status, size_t length, void *arg)
{
	fetch *f = arg;
	uam_worker *w = f->worker;
	(void)length;
	if (status == UCS_OK)
		fetch_done(w, f);
	else
		am_pool_give(&w->fetch_pool, f->slot);
	ucp_request_free(request);
}

// start_fetches starts rendezvous while there are free slots.
static void start_fetches(uam_worker *w)
{
	while (w->deferred_count > 0 && w->fetch_pool.left > 0) {
		fetch *next = &w->deferred[w->deferred_head];
		w->deferred_head = (w->deferred_head + 1) % w->deferred_size;
		w->deferred_count--;
		uint32_t slot = am_pool_take(&w->fetch_pool);
		fetch *f = &w->fetches[slot];
		*f = *next;
		f->worker = w;
		f->slot = slot;
		ucp_request_param_t param = {
			.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH,
			.cb.recv_am = fetch_completed,
			.user_data = f,
			.memh = w->fetch_memory,
		};
		w->counts.rendezvous++;
		void *request = ucp_am_recv_data_nbx(w->ucp, f->descriptor, am_pool_at(&w->fetch_pool, slot), f->length, &param);
		if (request == NULL)
			fetch_done(w, f);
		else if (UCS_PTR_IS_ERR(request))
			am_pool_give(&w->fetch_pool, slot);
	}
}

// uam_run_deferred does what must not happen inside a callback of UCX.
void uam_run_deferred(uam_worker *w)
{
	if (w->deferred_count > 0)
		start_fetches(w);
	if (w->any_lost)
		uam_close_lost(w);
}

// release frees the memory of arrivals that were taken.
static void release(uam_worker *w)
{
	am_shared *s = &w->shared;
	for (; w->released < s->taken; w->released++) {
		am_arrival *a = &s->ring[w->released & s->mask];
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
		case HELD_FETCHED:
			am_pool_give(&w->fetch_pool, ((fetch *)a->held)->slot);
			break;
		}
	}
	// Restart an empty arena at its beginning, which is in the cache.
	if (w->released == s->arrived)
		w->arena_head = w->arena_tail = 0;
}

// uam_poll frees the memory of arrivals that were taken, and progresses: once if something
// has arrived already, else until something arrives, at most config.bound times.
void uam_poll(uam_worker *w)
{
	am_shared *s = &w->shared;
	release(w);
	uint32_t bound = s->arrived != s->taken ? 1 : w->config.bound;
	do
		uam_progress(w);
	while (s->arrived == s->taken && --bound > 0);
}

// uam_arm makes the descriptor signal the next arrival. It returns 0 if there is work now.
int uam_arm(uam_worker *w)
{
	if (w->shared.arrived != w->shared.taken || w->deferred_count > 0 || w->any_lost)
		return 0;
	return ucp_worker_arm(w->ucp) == UCS_OK;
}
