//go:build ucx && cgo

// What the files of the native half share.

#ifndef UAM_INTERNAL_H
#define UAM_INTERNAL_H

#include "shim.h"

#include <stdlib.h>
#include <string.h>

enum { AM_SMALL = 1, AM_LARGE = 2 }; // handlers: a header alone, and data

struct uam_context {
	ucp_context_h ucp;
};

typedef enum { PEER_NONE, PEER_UP, PEER_LOST } peer_state;

typedef struct {
	uam_worker *worker;
	ucp_ep_h ep; // NULL once it is closed
	void *close_request; // while it is being closed
	uint64_t nonce;
	peer_state state;
	uint32_t id;
} uam_peer;

// slot_ref is what UCX gives back when a send completes.
typedef struct {
	uam_worker *worker;
	uint32_t slot;
} slot_ref;

// early is a message of a sender that is not connected yet.
typedef struct {
	uam_header header;
	uint64_t size;
	char *data;
} early_message;

// fetch is a rendezvous in progress.
typedef struct {
	uam_worker *worker;
	uam_header header;
	void *descriptor;
	uint64_t length; // of the payload
	uint32_t slot;
} fetch;

// Where an arrival's payload lies.
enum { HELD_NOTHING, HELD_ARENA, HELD_HEAP, HELD_DESCRIPTOR, HELD_LANDING };

struct uam_worker {
	uam_shared shared; // first: Go knows its place

	ucp_worker_h ucp;
	uam_context *context;
	uam_config config;
	uint64_t released; // arrivals whose memory is given back

	ucp_request_param_t small_param, large_param;
	uam_peer *peers;
	uam_peer *last; // found by the last find
	uint32_t *index; // nonce to peer+1, open addressing
	uint32_t index_mask;

	// Payloads that had to be copied, in the order of the ring.
	char *arena;
	uint64_t arena_size, arena_head, arena_tail;

	uam_pool landing; // of rendezvous
	ucp_mem_h send_memory, landing_memory;
	char *memory, *landing_base;
	size_t memory_size, landing_size;
	slot_ref *refs;
	fetch *fetches;        // by landing slot
	fetch *waiting;        // announced and without a slot, a circle
	uint32_t waiting_head, waiting_count, waiting_size;

	early_message *early;
	uint32_t early_count, early_size;

	uint32_t dead; // peers whose endpoint is to be closed
	uint32_t closing; // endpoints being closed
	int closed, destroyed;

	// The floor probe.
	int probing;
	uint32_t heard_kind, heard_peer; // of the last probe message; kind 0 is none
	uint64_t heard_token;
	uint32_t probe_number;
};

void uam_bury(uam_worker *w);
uam_peer *uam_find(uam_worker *w, uint64_t nonce);
void uam_lose(uam_worker *w, uam_peer *p, int64_t why);
void uam_chores(uam_worker *w);
ucs_status_t uam_set_handlers(uam_worker *w);
void uam_admit_early(uam_worker *w, uam_peer *p);
void uam_on_error(void *arg, ucp_ep_h ep, ucs_status_t status);
void uam_send_control(uam_worker *w, uam_peer *p, uint64_t kind, uint64_t token);

static inline void uam_progress(uam_worker *w)
{
	ucp_worker_progress(w->ucp);
	if (__builtin_expect(w->waiting_count | w->dead, 0))
		uam_chores(w);
}

static inline uint32_t uam_pool_take(uam_pool *p) { return p->free[--p->left]; }
static inline void uam_pool_give(uam_pool *p, uint32_t slot) { p->free[p->left++] = slot; }
static inline char *uam_pool_at(uam_pool *p, uint32_t slot) { return p->base + slot * p->stride; }

// The slots of both pools of a worker have one numbering, the large ones last.
static inline void uam_give_slot(uam_shared *s, uint32_t slot)
{
	if (slot < s->small.count)
		uam_pool_give(&s->small, slot);
	else
		uam_pool_give(&s->large, slot - s->small.count);
}

#endif
