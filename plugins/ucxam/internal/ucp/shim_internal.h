//go:build ucx && cgo

// Declarations that the C files share. Each file calls only those before it: peers.c,
// receive.c, send.c, worker.c, and context.c and probe.c on top.

#ifndef UAM_INTERNAL_H
#define UAM_INTERNAL_H

#include "shim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// IDs of the handlers: a header alone, with data, and a header alone that has several messages.
enum { AM_SMALL = 1, AM_LARGE = 2, AM_PACK = 3 };

struct uam_context {
	ucp_context_h ucp;
};

typedef enum { PEER_NONE, PEER_UP, PEER_LOST } peer_state;

typedef struct {
	uam_worker *worker;
	ucp_ep_h ep; // NULL once it is closed
	void *close_request; // while it is closing
	uint64_t nonce;
	peer_state state;
	uint32_t id;
} uam_peer;

// slot_ref is the user data of a send.
typedef struct {
	uam_worker *worker;
	uint32_t slot;
} slot_ref;

// early_message is a message of a sender that is not connected yet.
typedef struct {
	am_header header;
	uint64_t size;
	char *data;
} early_message;

// fetch is a rendezvous in progress.
typedef struct {
	uam_worker *worker;
	am_header header;
	void *descriptor;
	uint64_t length; // of the payload
	uint32_t slot;
} fetch;

// Where an arrival's payload lies.
enum { HELD_NOTHING, HELD_ARENA, HELD_HEAP, HELD_DESCRIPTOR, HELD_FETCHED };

struct uam_worker {
	am_shared shared; // Go gets pointers to both
	uam_counts counts;

	ucp_worker_h ucp;
	uam_context *context;
	uam_config config;
	uint64_t most_header; // bytes of UCX's largest header
	uint64_t released; // arrivals whose memory is free again

	ucp_request_param_t small_param, large_param;
	uam_peer *peers;
	uam_peer *last; // result of the last search
	uint32_t *index; // hash table from nonce to peer number + 1, open addressing
	uint32_t index_mask;

	// Payloads that had to be copied, in ring order.
	char *arena;
	uint64_t arena_size, arena_head, arena_tail;

	am_pool packs;      // messages of UCX that have several messages
	am_pool fetch_pool; // targets of rendezvous
	ucp_mem_h send_memory, fetch_memory;
	char *memory, *fetch_base, *pack_base;
	size_t memory_size, fetch_size;
	slot_ref *refs;
	fetch *fetches;  // by slot of fetch_pool
	fetch *deferred; // rendezvous that are not started yet, circular
	uint32_t deferred_head, deferred_count, deferred_size;

	early_message *early;
	uint32_t early_count, early_size;

	uint32_t any_lost; // 1 if the endpoint of a lost peer must be closed
	uint32_t closing;  // endpoints being closed
	int closed, destroyed;

	am_probe probe;
};

// peers.c
uint32_t uam_index(uam_worker *w, uint64_t nonce);
uam_peer *uam_find_indexed(uam_worker *w, uint64_t origin);
void uam_lose(uam_worker *w, uam_peer *p, int64_t why);
void uam_on_error(void *arg, ucp_ep_h ep, ucs_status_t status);
char *uam_endpoint_info(ucp_ep_h ep);
ucs_status_t uam_create_endpoint(ucp_worker_h w, const void *address, int peer_errors,
	ucp_err_handler_cb_t on_error, void *arg, ucp_ep_h *ep);
void uam_close_endpoint(uam_worker *w, uam_peer *p, int force);
void uam_close_lost(uam_worker *w);

// receive.c
ucs_status_t uam_set_handlers(uam_worker *w);
void uam_admit_early(uam_worker *w, uam_peer *p);
void uam_run_deferred(uam_worker *w);

// send.c
void uam_set_send_params(uam_worker *w);
void uam_send_control(uam_worker *w, uam_peer *p, uint64_t kind, uint64_t token);

// uam_kind returns the kind of a message of a peer. It is more than AM_LOST if another has sent it.
static inline uint64_t uam_kind(const uam_peer *p, uint64_t origin) { return origin ^ p->nonce; }

// uam_find returns the peer that has sent a message of this origin, or NULL.
static inline uam_peer *uam_find(uam_worker *w, uint64_t origin)
{
	uam_peer *p = w->last;
	return p != NULL && uam_kind(p, origin) <= AM_LOST ? p : uam_find_indexed(w, origin);
}

// uam_progress lets UCX progress, then does what its callbacks must not do.
static inline void uam_progress(uam_worker *w)
{
	ucp_worker_progress(w->ucp);
	if (__builtin_expect(w->deferred_count | w->any_lost, 0))
		uam_run_deferred(w);
}


// uam_give_slot frees a send slot. Slots of all pools are numbered together: small, large, packs.
static inline void uam_give_slot(uam_worker *w, uint32_t slot)
{
	am_shared *s = &w->shared;
	if (slot < s->small.count)
		am_pool_give(&s->small, slot);
	else if ((slot -= s->small.count) < s->large.count)
		am_pool_give(&s->large, slot);
	else
		am_pool_give(&w->packs, slot - s->large.count);
}

#endif
