//go:build ucx && cgo

#include "shim_internal.h"

#include <sys/mman.h>

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

static uint64_t power_of_two(uint64_t n)
{
	uint64_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

static ucs_status_t make_pool(am_pool *p, uint64_t payload, uint32_t count)
{
	p->stride = round_up(sizeof(am_header) + payload, 64);
	p->count = p->left = count;
	p->free = malloc(count * sizeof *p->free + 1);
	if (p->free == NULL)
		return UCS_ERR_NO_MEMORY;
	// A stack: a worker with few messages in flight uses few slots, which stay in
	// the cache.
	for (uint32_t i = 0; i < count; i++)
		p->free[i] = count - 1 - i;
	return UCS_OK;
}

// map_memory maps size bytes and registers them with UCX.
static ucs_status_t map_memory(uam_worker *w, size_t size, char **base, ucp_mem_h *handle)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return UCS_ERR_NO_MEMORY;
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = at,
		.length = size,
	};
	uint64_t began = now_ns();
	ucs_status_t status = ucp_mem_map(w->context->ucp, &params, handle);
	if (status != UCS_OK) {
		munmap(at, size);
		return status;
	}
	w->counts.registered += size;
	w->counts.registered_ns += now_ns() - began;
	*base = at;
	return UCS_OK;
}

static void unmap_memory(uam_worker *w, char *base, size_t size, ucp_mem_h handle)
{
	if (base == NULL)
		return;
	ucp_mem_unmap(w->context->ucp, handle);
	munmap(base, size);
}

// large_count returns the number of slots for large messages.
static uint32_t large_count(const uam_config *cfg, uint64_t stride)
{
	if (cfg->max_payload <= cfg->eager && cfg->max_payload <= cfg->small)
		return 0;
	uint64_t wanted = (uint64_t)cfg->peers * cfg->window * 2, room = cfg->large_bytes / stride;
	if (wanted > room)
		wanted = room;
	return wanted < 2 ? 2 : wanted;
}

// A flush of small messages to many peers fills many packs. PACK_BYTES is about UCX's largest header.
enum { PACKS = 64, PACK_BYTES = 8 << 10 };

static ucs_status_t make_memory(uam_worker *w)
{
	uam_config *cfg = &w->config;
	am_shared *s = &w->shared;
	uint64_t small = cfg->small < cfg->max_payload ? cfg->small : cfg->max_payload;
	uint64_t messages = (uint64_t)cfg->peers * cfg->window * 2 + 64;
	uint32_t small_count = messages < 65536 ? messages : 65536;
	uint64_t stride = round_up(sizeof(am_header) + cfg->max_payload, 64);
	uint32_t large = cfg->max_payload > cfg->small ? large_count(cfg, stride) : 0;
	ucs_status_t status;
	if ((status = make_pool(&s->small, small, small_count)) != UCS_OK ||
	    (status = make_pool(&s->large, cfg->max_payload, large)) != UCS_OK ||
	    (status = make_pool(&w->fetch_pool, cfg->max_payload, large_count(cfg, stride))) != UCS_OK)
		return status;

	if (cfg->pack) {
		// The stride is also the largest pack.
		if ((status = make_pool(&w->packs, PACK_BYTES, PACKS)) != UCS_OK)
			return status;
		w->packs.stride = w->most_header < PACK_BYTES ? w->most_header & ~(uint64_t)63 : PACK_BYTES;
		w->packs.base = w->pack_base = malloc(PACKS * w->packs.stride);
		if (w->pack_base == NULL)
			return UCS_ERR_NO_MEMORY;
	}
	w->memory_size = small_count * s->small.stride + large * s->large.stride;
	status = map_memory(w, w->memory_size, &w->memory, &w->send_memory);
	if (status != UCS_OK)
		return status;
	s->small.base = w->memory;
	s->large.base = w->memory + small_count * s->small.stride;
	w->fetch_size = w->fetch_pool.count * w->fetch_pool.stride;
	if (w->fetch_size != 0) {
		status = map_memory(w, w->fetch_size, &w->fetch_base, &w->fetch_memory);
		if (status != UCS_OK)
			return status;
		w->fetch_pool.base = w->fetch_base;
	}
	uint64_t entries = power_of_two(messages + cfg->peers);
	s->mask = entries - 1;
	w->arena_size = power_of_two(entries * 256);
	if (w->arena_size > 4 << 20)
		w->arena_size = 4 << 20;
	if (w->arena_size < 256 << 10)
		w->arena_size = 256 << 10;
	w->deferred_size = messages;
	w->early_size = messages;
	w->index_mask = power_of_two(2 * (uint64_t)cfg->peers + 2) - 1;
	s->sends = calloc(small_count + large, sizeof *s->sends);
	uint32_t slots = small_count + large + w->packs.count;
	w->refs = calloc(slots, sizeof *w->refs);
	s->ring = calloc(entries, sizeof *s->ring);
	w->arena = malloc(w->arena_size);
	w->fetches = calloc(w->fetch_pool.count + 1, sizeof *w->fetches);
	w->deferred = calloc(w->deferred_size, sizeof *w->deferred);
	w->early = calloc(w->early_size, sizeof *w->early);
	w->index = calloc(w->index_mask + 1, sizeof *w->index);
	w->peers = calloc(cfg->peers, sizeof *w->peers);
	if (!s->sends || !w->refs || !s->ring || !w->arena || !w->fetches || !w->deferred || !w->early || !w->index || !w->peers)
		return UCS_ERR_NO_MEMORY;
	for (uint32_t slot = 0; slot < slots; slot++)
		w->refs[slot] = (slot_ref){ w, slot };
	return UCS_OK;
}

ucs_status_t uam_worker_open(uam_context *c, const uam_config *cfg, uint64_t nonce, uam_worker **out)
{
	uam_worker *w = calloc(1, sizeof *w);
	if (w == NULL)
		return UCS_ERR_NO_MEMORY;
	w->context = c;
	w->config = *cfg;
	w->shared.nonce = nonce;
	// One thread at a time uses a worker, but not always the same one.
	ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	ucs_status_t status = ucp_worker_create(c->ucp, &params, &w->ucp);
	if (status != UCS_OK) {
		free(w);
		return status;
	}
	ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER };
	if ((status = ucp_worker_query(w->ucp, &attr)) == UCS_OK) {
		w->most_header = attr.max_am_header;
		uint64_t most = attr.max_am_header - sizeof(am_header);
		if (w->config.eager > most)
			w->config.eager = most;
		if ((status = make_memory(w)) == UCS_OK) {
			uam_set_send_params(w);
			status = uam_set_handlers(w);
		}
	}
	if (status != UCS_OK) {
		uam_worker_close(w);
		return status;
	}
	*out = w;
	return UCS_OK;
}

am_shared *uam_worker_shared(uam_worker *w) { return &w->shared; }
uam_counts *uam_worker_counts(uam_worker *w) { return &w->counts; }

int uam_worker_descriptor(uam_worker *w)
{
	int descriptor;
	if (!w->config.wakeup || ucp_worker_get_efd(w->ucp, &descriptor) != UCS_OK)
		return -1;
	return descriptor;
}

// uam_worker_address returns a copy that the caller frees.
ucs_status_t uam_worker_address(uam_worker *w, void **address, size_t *length)
{
	ucp_address_t *own;
	ucs_status_t status = ucp_worker_get_address(w->ucp, &own, length);
	if (status != UCS_OK)
		return status;
	*address = malloc(*length);
	if (*address != NULL)
		memcpy(*address, own, *length);
	ucp_worker_release_address(w->ucp, own);
	return *address == NULL ? UCS_ERR_NO_MEMORY : UCS_OK;
}

enum { QUIET_ROUNDS = 100 };

// uam_connect connects a peer. *info is UCX's description of the connection; the caller
// frees it.
ucs_status_t uam_connect(uam_worker *w, uint32_t id, uint64_t nonce, const void *address, char **info)
{
	uam_peer *p = &w->peers[id];
	p->worker = w;
	p->nonce = nonce;
	p->id = id;
	ucs_status_t status = uam_create_endpoint(w->ucp, address, w->config.peer_errors, uam_on_error, p, &p->ep);
	if (status != UCS_OK)
		return status;
	*info = uam_endpoint_info(p->ep);
	p->state = PEER_UP;
	uint32_t at = uam_index(w, nonce);
	while (w->index[at] != 0)
		at = (at + 1) & w->index_mask;
	w->index[at] = id + 1;
	uam_admit_early(w, p);
	// Run UCX's handshake as far as it goes without the peer.
	for (int quiet = 0; quiet < QUIET_ROUNDS; quiet++)
		if (ucp_worker_progress(w->ucp) != 0)
			quiet = 0;
	return UCS_OK;
}

// uam_cut ends the connection to a peer that breaks the protocol.
void uam_cut(uam_worker *w, uint32_t id) { uam_lose(w, &w->peers[id], AM_CLOSED); }

// uam_begin_close tells all peers that the worker closes, and closes their endpoints once
// earlier messages are flushed.
void uam_begin_close(uam_worker *w)
{
	w->closed = 1;
	for (uint32_t i = 0; i < w->config.peers; i++) {
		uam_peer *p = &w->peers[i];
		if (p->state != PEER_UP)
			continue;
		uam_send_control(w, p, AM_CLOSE, 0);
		p->state = PEER_LOST;
		uam_close_endpoint(w, p, 0);
	}
	uam_close_lost(w);
}

uint32_t uam_drain(uam_worker *w, uint32_t rounds)
{
	while (rounds-- > 0 && w->closing + w->shared.pending > 0)
		uam_progress(w);
	return w->closing + w->shared.pending;
}

void uam_worker_close(uam_worker *w)
{
	w->closed = 1;
	for (; w->shared.ring && w->released < w->shared.arrived; w->released++) {
		am_arrival *a = &w->shared.ring[w->released & w->shared.mask];
		if (a->route == HELD_DESCRIPTOR)
			ucp_am_data_release(w->ucp, a->held);
		else if (a->route == HELD_HEAP)
			free(a->held);
	}
	for (; w->deferred_count > 0; w->deferred_count--) {
		ucp_am_data_release(w->ucp, w->deferred[w->deferred_head].descriptor);
		w->deferred_head = (w->deferred_head + 1) % w->deferred_size;
	}
	for (uint32_t i = 0; w->peers && i < w->config.peers; i++)
		uam_close_endpoint(w, &w->peers[i], 1);
	uam_drain(w, 1000);
	// Drop what cannot be flushed. UCX requires that requests are freed before the
	// worker is destroyed.
	w->destroyed = 1;
	for (uint32_t i = 0; w->peers && i < w->config.peers; i++)
		if (w->peers[i].close_request != NULL)
			ucp_request_free(w->peers[i].close_request);
	ucp_worker_destroy(w->ucp);
	unmap_memory(w, w->memory, w->memory_size, w->send_memory);
	unmap_memory(w, w->fetch_base, w->fetch_size, w->fetch_memory);
	for (uint32_t i = 0; i < w->early_count; i++)
		free(w->early[i].data);
	free(w->shared.small.free);
	free(w->shared.large.free);
	free(w->fetch_pool.free);
	free(w->packs.free);
	free(w->pack_base);
	free(w->shared.sends);
	free(w->refs);
	free(w->shared.ring);
	free(w->arena);
	free(w->fetches);
	free(w->deferred);
	free(w->early);
	free(w->index);
	free(w->peers);
	free(w);
}
