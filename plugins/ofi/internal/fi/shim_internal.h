//go:build ofi && cgo

// Declarations that the C files share.

#ifndef FB_INTERNAL_H
#define FB_INTERNAL_H

#include "shim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

// A large message has the tag LARGE_TAG, and above TAG_COUNT how many of equal size it gathers. Most
// providers take GATHER_MOST segments. More bytes than GATHER_BYTES, which leave the caches, gain nothing.
enum { LARGE_TAG = 1, TAG_COUNT = 8, TAG_IGNORED = 0xff << TAG_COUNT, GATHER_MOST = 4, GATHER_BYTES = 128 << 10 };

struct fb_list {
	struct fi_info *first;
};

struct fb_context {
	struct fi_info *info;
	struct fid_fabric *fabric;
};

typedef enum { PEER_NONE, PEER_UP, PEER_LOST } peer_state;

typedef struct {
	fi_addr_t address;
	uint64_t nonce;
	uint64_t blocked; // the flush in which libfabric had no room for it
	peer_state state;
	uint32_t id;
	uint32_t pending; // sends that libfabric has not completed
	int told;         // that this worker closes
} fb_peer;

typedef enum { OP_SEND, OP_RECEIVE, OP_RECEIVE_LARGE } op_kind;

// fb_op is the context of one operation of libfabric. libfabric may write to the first member.
typedef struct {
	struct fi_context2 context;
	op_kind kind;
	uint32_t slot;
	uint32_t peer;   // of a send
	int unposted;    // a receive that libfabric has no room for yet
	uint32_t next;   // slot of a send that is gathered after this one, with 1 added
} fb_op;

// fb_early is a message of a sender that is not connected yet.
typedef struct {
	am_header header;
	uint64_t size;
	char *data;
} fb_early;

struct fb_worker {
	am_shared shared; // Go gets pointers to both
	fb_counts counts;

	struct fi_info *info; // the context's, with this worker's sizes of queues
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_mr *mr;
	void *desc;
	fb_context *context;
	fb_config config;
	uint64_t inject; // bytes that libfabric copies at once
	uint32_t gather, gathered; // messages that one sends, and that one receives at most
	uint64_t flush;  // number of the current flush
	uint64_t released; // arrivals whose memory is free again

	fb_peer *peers;
	fb_peer *last;   // result of the last search
	uint32_t *index; // hash table from nonce to peer number + 1, open addressing
	uint32_t index_mask;

	char *memory; // of all messages
	size_t memory_size;
	am_pool receives, large_receives; // their stacks are not used
	fb_op *sending, *receiving, *receiving_large; // by slot
	uint32_t unposted;

	fb_early *early;
	uint32_t early_count, early_size;

	char address[256];
	size_t address_size;
	int closed;

	am_probe probe;
};

// receive.c
void fb_post_receives(fb_worker *w);
void fb_read_completions(fb_worker *w);
void fb_admit_early(fb_worker *w, fb_peer *p);
void fb_lose(fb_worker *w, fb_peer *p, int64_t why);
void fb_lose_all(fb_worker *w, int64_t why);

// send.c
int fb_post(fb_worker *w, fb_peer *p, uint32_t slot, uint64_t size);
int fb_enqueue(fb_worker *w, uint32_t peer, uint32_t kind, uint64_t token);

// fb_index returns where a search in the hash table begins, for a nonce and any origin with it.
static inline uint32_t fb_index(fb_worker *w, uint64_t nonce)
{
	return (uint32_t)((AM_BASE(nonce) * 0x9e3779b97f4a7c15u) >> 32) & w->index_mask;
}

// fb_find_indexed looks for a peer in the hash table.
fb_peer *fb_find_indexed(fb_worker *w, uint64_t origin);

// fb_kind returns the kind of a message of a peer. It is more than AM_LOST if another has sent it.
static inline uint64_t fb_kind(const fb_peer *p, uint64_t origin) { return origin ^ p->nonce; }

// fb_find returns the peer that has sent a message of this origin, or NULL.
static inline fb_peer *fb_find(fb_worker *w, uint64_t origin)
{
	fb_peer *p = w->last;
	return p != NULL && fb_kind(p, origin) <= AM_LOST ? p : fb_find_indexed(w, origin);
}


// fb_slot returns the memory of a send slot. Slots of both pools are numbered together, small
// first.
static inline char *fb_slot(am_shared *s, uint32_t slot)
{
	return slot < s->small.count ? am_pool_at(&s->small, slot) : am_pool_at(&s->large, slot - s->small.count);
}

static inline void fb_give_slot(am_shared *s, uint32_t slot)
{
	if (slot < s->small.count)
		am_pool_give(&s->small, slot);
	else
		am_pool_give(&s->large, slot - s->small.count);
}

#endif
