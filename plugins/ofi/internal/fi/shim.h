//go:build ofi && cgo

// The native half of package fi. A worker owns its domain, endpoint and queues of libfabric,
// the memory of messages, the queue of messages to send and the ring of arrivals. Go fills
// the queue and empties the ring without a call into C. It calls fb_flush once to send the
// queue, and fb_poll once to fill the ring.
//
// One thread at a time may use a worker.

#ifndef FB_SHIM_H
#define FB_SHIM_H

#include "amlib.h"

#include <stddef.h>

typedef struct fb_list fb_list;
typedef struct fb_context fb_context;
typedef struct fb_worker fb_worker;

// fb_info is one interface to a provider, as fi_getinfo describes it.
typedef struct {
	const char *provider, *fabric, *domain;
	char endpoint[32], protocol[32]; // as fi_tostr has them: "FI_EP_RDM", "FI_PROTO_RXM"
	uint32_t version, format;
	const void *address;
	uint64_t address_size;
	uint64_t inject, transmits, receives, max_message, mr_mode, mode;
} fb_info;

typedef struct {
	uint32_t peers;
	uint32_t window; // calls in flight per connection and direction
	uint64_t max_payload;
	uint64_t small;       // payloads up to this size are plain messages, others tagged ones
	uint64_t large_bytes; // limit for the memory of large slots, per direction
	uint32_t bound;       // limit of reads of the completion queue in one poll
	int wakeup;
} fb_config;

// fb_counts has the counters of a worker.
typedef struct {
	uint64_t sent, injected, gathered, retried, received, early, errors, strangers;
	uint64_t registered, registered_ns; // bytes that the provider registered, and the time it took
} fb_counts;

// Control. Functions return 0 or a negative error of libfabric.
uint32_t fb_version(void);
const char *fb_error(int error);
int fb_list_open(const char *provider, fb_list **out);
int fb_list_at(fb_list *l, uint32_t i, fb_info *out); // 0 past the end
void fb_list_close(fb_list *l);
int fb_open(fb_list *l, uint32_t i, fb_context **out);
void fb_close(fb_context *c);

int fb_worker_open(fb_context *c, const fb_config *cfg, uint64_t nonce, const char *name, fb_worker **out);
am_shared *fb_worker_shared(fb_worker *w);
fb_counts *fb_worker_counts(fb_worker *w);
const void *fb_worker_address(fb_worker *w, size_t *length);
int fb_worker_descriptor(fb_worker *w); // -1 if there is none
int fb_connect(fb_worker *w, uint32_t peer, uint64_t nonce, const void *address);
void fb_cut(fb_worker *w, uint32_t peer);
void fb_begin_close(fb_worker *w);
uint32_t fb_drain(fb_worker *w, uint32_t rounds); // returns what is still to be sent
void fb_worker_close(fb_worker *w);
void fb_fail_reads(fb_worker *w, int error); // of the completion queue from now on, for tests
int fb_forge(fb_worker *w, uint32_t n);

// Shared memory. See memory.c.
int fb_process_died(void); // returns whether one had before

// Data path.
void fb_flush(fb_worker *w);
void fb_poll(fb_worker *w);
int fb_arm(fb_worker *w); // 0 if there is something to poll

// The library probe. Each call runs for a slice of time.
int fb_probe_lead(fb_worker *w, uint32_t peer, uint32_t session, uint32_t size, uint64_t slice_ns, am_wait *wait, double *trips, uint32_t *filled, uint32_t max);
void fb_probe_end(fb_worker *w, uint32_t peer, uint32_t session);
int fb_probe_follow(fb_worker *w, uint32_t peer, uint32_t size, uint64_t slice_ns, am_wait *wait, uint32_t done, uint32_t *current);

#endif
