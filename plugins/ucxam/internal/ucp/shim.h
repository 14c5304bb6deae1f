//go:build ucx && cgo

// The native half of package ucp. A worker owns its UCX worker, the receive handlers, the
// memory of messages in flight, the queue of messages to send and the ring of arrivals. Go
// fills the queue and empties the ring without a call into C. It calls uam_flush once to
// send the queue, and uam_poll once to fill the ring.
//
// One thread at a time may use a worker.

#ifndef UAM_SHIM_H
#define UAM_SHIM_H

#include "amlib.h"

#include <ucp/api/ucp.h>

// uam_packed precedes each message of a pack, which is one message of UCX. The payload follows, and
// zeros up to a multiple of 8 bytes.
typedef struct {
	am_header header;
	uint64_t size; // of the payload
} uam_packed;

typedef struct uam_context uam_context;
typedef struct uam_worker uam_worker;

typedef struct {
	uint32_t peers;
	uint32_t window; // calls in flight per connection and direction
	uint64_t max_payload;
	uint64_t small; // payloads up to this size use small slots
	uint64_t eager; // payloads up to this size are sent as a header alone
	uint64_t large_bytes; // limit for the memory of large slots, per direction
	uint32_t bound;       // limit of UCX progress calls in one poll
	int wakeup;
	int peer_errors; // UCP_ERR_HANDLING_MODE_PEER
	int pack;        // send messages of a flush to one peer together
} uam_config;

// uam_counts has the counters of a worker.
typedef struct {
	uint64_t sent, pended, rendezvous, copied, copied_bytes, kept, strangers;
	uint64_t packed, packed_bytes; // payloads copied into packs
	uint64_t registered, registered_ns; // bytes that UCX registered, and the time it took
} uam_counts;

// Control.
ucs_status_t uam_open(const char *const *settings, int wakeup, int shared, uam_context **out, int *bad);
void uam_close_context(uam_context *c);
char *uam_context_info(uam_context *c);             // freed by the caller
char *uam_known_variables(void);                    // freed by the caller
ucs_status_t uam_trial_connect(uam_context *c, int peer_errors, char **info); // *info is freed by the caller

ucs_status_t uam_worker_open(uam_context *c, const uam_config *cfg, uint64_t nonce, uam_worker **out);
am_shared *uam_worker_shared(uam_worker *w);
uam_counts *uam_worker_counts(uam_worker *w);
ucs_status_t uam_worker_address(uam_worker *w, void **address, size_t *length);
int uam_worker_descriptor(uam_worker *w); // -1 without wake-up
ucs_status_t uam_connect(uam_worker *w, uint32_t peer, uint64_t nonce, const void *address, char **info);
void uam_cut(uam_worker *w, uint32_t peer);
void uam_begin_close(uam_worker *w);
uint32_t uam_drain(uam_worker *w, uint32_t rounds); // returns what is still closing
void uam_worker_close(uam_worker *w);

// Data path.
void uam_flush(uam_worker *w);
void uam_poll(uam_worker *w);
int uam_arm(uam_worker *w); // 0 if there is something to poll

// The library probe. Each call runs for a slice of time.
uint64_t uam_probe_limit(uam_worker *w);
int uam_probe_lead(uam_worker *w, uint32_t peer, uint32_t session, uint32_t size, uint64_t slice_ns, am_wait *wait, double *trips, uint32_t *filled, uint32_t max);
void uam_probe_end(uam_worker *w, uint32_t peer, uint32_t session);
int uam_probe_follow(uam_worker *w, uint32_t peer, uint32_t size, uint64_t slice_ns, am_wait *wait, uint32_t done, uint32_t *current);

#endif
