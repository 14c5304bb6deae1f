//go:build ofi && cgo

#include "shim_internal.h"

#include <signal.h>
#include <sys/mman.h>

// libfabric's provider shm takes over signals of the process when an endpoint is enabled, to remove
// its files; Go must keep them.
typedef struct {
	struct sigaction actions[NSIG];
} fb_signals;

static void save_signals(fb_signals *s)
{
	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, NULL, &s->actions[i]) != 0)
			s->actions[i].sa_handler = SIG_ERR;
}

static void restore_signals(const fb_signals *s)
{
	for (int i = 1; i < NSIG; i++) {
		struct sigaction now;
		if (s->actions[i].sa_handler != SIG_ERR && sigaction(i, NULL, &now) == 0 &&
		    now.sa_sigaction != s->actions[i].sa_sigaction)
			sigaction(i, &s->actions[i], NULL);
	}
}

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t power_of_two(uint64_t n)
{
	uint64_t p = 1;
	while (p < n)
		p *= 2;
	return p;
}

static int make_pool(am_pool *p, uint64_t payload, uint32_t count)
{
	p->stride = round_up(sizeof(am_header) + payload, 64);
	p->count = p->left = count;
	p->free = malloc(count * sizeof *p->free + 1);
	if (p->free == NULL)
		return -FI_ENOMEM;
	// A stack: a worker with few messages in flight uses few slots, which stay in the cache.
	for (uint32_t i = 0; i < count; i++)
		p->free[i] = count - 1 - i;
	return 0;
}

static char *place(am_pool *p, char *at)
{
	p->base = at;
	return at + p->count * p->stride;
}

static fb_op *make_ops(op_kind kind, uint32_t count)
{
	fb_op *ops = calloc(count + 1, sizeof *ops);
	for (uint32_t i = 0; ops != NULL && i < count; i++) {
		ops[i].kind = kind;
		ops[i].slot = i;
	}
	return ops;
}

// make_memory allocates everything whose size depends on the configuration.
static int make_memory(fb_worker *w)
{
	fb_config *cfg = &w->config;
	am_shared *s = &w->shared;
	uint64_t messages = (uint64_t)cfg->peers * cfg->window * 2, receives = w->context->info->rx_attr->size;
	uint32_t small = least(messages + 64, 65536), large = 0;
	uint64_t stride = round_up(sizeof(am_header) + cfg->max_payload, 64);
	if (cfg->max_payload > cfg->small) {
		large = least(messages, cfg->large_bytes / stride);
		large = large < 2 ? 2 : large;
	}
	struct fi_info *info = w->context->info;
	uint64_t gathered = sizeof(am_header) + cfg->max_payload;
	w->gathered = least(GATHER_MOST, GATHER_BYTES / gathered);
	w->gathered += w->gathered == 0;
	w->gather = least(w->gathered, least(info->tx_attr->iov_limit, info->ep_attr->max_msg_size / gathered));
	gathered = w->gathered * gathered - sizeof(am_header);
	// libfabric keeps a message without a receive, so there may be fewer than messages in
	// flight.
	uint32_t small_receives = least(small, receives - receives / 4), large_receives = least(large, receives / 4);
	large_receives = least(large_receives, 2 + cfg->large_bytes / gathered);
	if (make_pool(&s->small, cfg->small, small) || make_pool(&s->large, cfg->max_payload, large) ||
	    make_pool(&w->receives, cfg->small, small_receives) || make_pool(&w->large_receives, gathered, large_receives))
		return -FI_ENOMEM;
	w->memory_size = s->small.count * s->small.stride + s->large.count * s->large.stride +
		w->receives.count * w->receives.stride + w->large_receives.count * w->large_receives.stride;
	char *at = mmap(NULL, w->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -FI_ENOMEM;
	w->memory = at;
	at = place(&s->small, at);
	at = place(&w->receives, at);
	at = place(&s->large, at);
	place(&w->large_receives, at);

	w->early_size = messages + 1;
	uint64_t entries = power_of_two((uint64_t)w->receives.count + (uint64_t)w->gathered * w->large_receives.count + w->early_size + cfg->peers);
	s->mask = entries - 1;
	w->index_mask = power_of_two(2 * (uint64_t)cfg->peers + 2) - 1;
	s->sends = calloc(small + large, sizeof *s->sends);
	s->ring = calloc(entries, sizeof *s->ring);
	w->sending = make_ops(OP_SEND, small + large);
	w->receiving = make_ops(OP_RECEIVE, small_receives);
	w->receiving_large = make_ops(OP_RECEIVE_LARGE, large_receives);
	w->early = calloc(w->early_size, sizeof *w->early);
	w->index = calloc(w->index_mask + 1, sizeof *w->index);
	w->peers = calloc(cfg->peers, sizeof *w->peers);
	if (!s->sends || !s->ring || !w->sending || !w->receiving || !w->receiving_large || !w->early || !w->index || !w->peers)
		return -FI_ENOMEM;
	return 0;
}

// make_objects opens libfabric's objects. A name replaces the endpoint's own.
static int make_objects(fb_worker *w, const char *name)
{
	struct fi_info *info = w->info;
	int error = fi_domain(w->context->fabric, info, &w->domain, NULL);
	if (error != 0)
		return error;
	struct fi_av_attr av = { .type = info->domain_attr->av_type, .count = w->config.peers };
	if ((error = fi_av_open(w->domain, &av, &w->av, NULL)) != 0)
		return error;
	struct fi_cq_attr cq = {
		.size = power_of_two((uint64_t)w->receives.count + w->large_receives.count + info->tx_attr->size),
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = w->config.wakeup ? FI_WAIT_FD : FI_WAIT_NONE,
	};
	if ((error = fi_cq_open(w->domain, &cq, &w->cq, NULL)) != 0 ||
	    (error = fi_endpoint(w->domain, info, &w->ep, NULL)) != 0 ||
	    (error = fi_ep_bind(w->ep, &w->av->fid, 0)) != 0 ||
	    (error = fi_ep_bind(w->ep, &w->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
		return error;
	if (name != NULL && (error = fi_setname(&w->ep->fid, (void *)name, strlen(name) + 1)) != 0)
		return error;
	if ((error = fi_enable(w->ep)) != 0)
		return error;
	if (info->domain_attr->mr_mode & FI_MR_LOCAL) {
		uint64_t began = now_ns();
		error = fi_mr_reg(w->domain, w->memory, w->memory_size, FI_SEND | FI_RECV, 0, 0, 0, &w->mr, NULL);
		if (error == 0 && (info->domain_attr->mr_mode & FI_MR_ENDPOINT) &&
		    (error = fi_mr_bind(w->mr, &w->ep->fid, 0)) == 0)
			error = fi_mr_enable(w->mr);
		if (error != 0)
			return error;
		w->counts.registered = w->memory_size;
		w->counts.registered_ns = now_ns() - began;
		w->desc = fi_mr_desc(w->mr);
	}
	w->inject = info->tx_attr->inject_size;
	w->address_size = sizeof w->address;
	if ((error = fi_getname(&w->ep->fid, w->address, &w->address_size)) != 0)
		return error;
	for (uint32_t i = 0; i < w->receives.count; i++)
		w->receiving[i].unposted = 1;
	for (uint32_t i = 0; i < w->large_receives.count; i++)
		w->receiving_large[i].unposted = 1;
	w->unposted = w->receives.count + w->large_receives.count;
	fb_post_receives(w);
	return 0;
}

int fb_worker_open(fb_context *c, const fb_config *cfg, uint64_t nonce, const char *name, fb_worker **out)
{
	fb_worker *w = calloc(1, sizeof *w);
	if (w == NULL)
		return -FI_ENOMEM;
	w->context = c;
	w->config = *cfg;
	w->shared.nonce = nonce;
	w->info = fi_dupinfo(c->info);
	int error = w->info == NULL ? -FI_ENOMEM : make_memory(w);
	if (error == 0) {
		// Providers allocate for the sizes of the queues.
		w->info->rx_attr->size = least(c->info->rx_attr->size, power_of_two((uint64_t)w->receives.count + w->large_receives.count));
		w->info->tx_attr->size = least(c->info->tx_attr->size, power_of_two((uint64_t)w->shared.small.count + w->shared.large.count));
		fb_signals signals;
		save_signals(&signals);
		error = make_objects(w, name);
		restore_signals(&signals);
	}
	if (error != 0) {
		fb_worker_close(w);
		return error;
	}
	*out = w;
	return 0;
}

am_shared *fb_worker_shared(fb_worker *w) { return &w->shared; }
fb_counts *fb_worker_counts(fb_worker *w) { return &w->counts; }

const void *fb_worker_address(fb_worker *w, size_t *length)
{
	*length = w->address_size;
	return w->address;
}

int fb_worker_descriptor(fb_worker *w)
{
	int descriptor;
	if (!w->config.wakeup || fi_control(&w->cq->fid, FI_GETWAIT, &descriptor) != 0)
		return -1;
	return descriptor;
}

int fb_connect(fb_worker *w, uint32_t id, uint64_t nonce, const void *address)
{
	fb_peer *p = &w->peers[id];
	int inserted = fi_av_insert(w->av, address, 1, &p->address, 0, NULL);
	if (inserted != 1)
		return inserted < 0 ? inserted : -FI_EADDRNOTAVAIL;
	p->nonce = nonce;
	p->id = id;
	p->state = PEER_UP;
	uint32_t at = fb_index(w, nonce);
	while (w->index[at] != 0)
		at = (at + 1) & w->index_mask;
	w->index[at] = id + 1;
	fb_admit_early(w, p);
	return 0;
}

// fb_cut ends the connection to a peer.
void fb_cut(fb_worker *w, uint32_t id) { fb_lose(w, &w->peers[id], AM_CLOSED); }

// fb_begin_close makes fb_drain tell all peers that the worker closes.
void fb_begin_close(fb_worker *w) { w->closed = 1; }

static void close_object(struct fid *object)
{
	if (object != NULL)
		fi_close(object);
}

#define CLOSE(object) close_object((object) == NULL ? NULL : &(object)->fid)

void fb_worker_close(fb_worker *w)
{
	am_shared *s = &w->shared;
	w->closed = 1;
	CLOSE(w->ep);
	CLOSE(w->mr);
	CLOSE(w->cq);
	CLOSE(w->av);
	CLOSE(w->domain);
	for (; s->ring != NULL && w->released < s->arrived; w->released++)
		free(s->ring[w->released & s->mask].copy);
	for (uint32_t i = 0; i < w->early_count; i++)
		free(w->early[i].data);
	if (w->memory != NULL)
		munmap(w->memory, w->memory_size);
	if (w->info != NULL)
		fi_freeinfo(w->info);
	free(s->small.free);
	free(s->large.free);
	free(w->receives.free);
	free(w->large_receives.free);
	free(s->sends);
	free(s->ring);
	free(w->sending);
	free(w->receiving);
	free(w->receiving_large);
	free(w->early);
	free(w->index);
	free(w->peers);
	free(w);
}
