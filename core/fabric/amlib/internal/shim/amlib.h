// What the C halves of transports over a library of messages have in common. Each includes it
// through a link in its own directory, so that the go command sees a change.

#ifndef AMLIB_H
#define AMLIB_H

#include <stdint.h>
#include <time.h>

// am_header precedes every payload. origin is the sender's nonce, XORed with the kind.
typedef struct {
	uint64_t token;
	uint64_t origin;
} am_header;

enum {
	AM_CALL = 1,
	AM_REPLY,
	AM_CLOSE, // the sender closes
	AM_PING,  // of the library probe; the token is session and number
	AM_PONG,
	AM_PING_END,
	AM_LOST, // not a message: the peer is lost, and the token has the reason
};

// AM_BASE has the bits of a nonce that no kind changes.
#define AM_BASE(nonce) ((nonce) & ~(uint64_t)0xff)

// Tokens of AM_LOST, besides negative errors of the library.
enum { AM_CLOSED = 0, AM_CORRUPT = 1 };

// AM_BATCH is how many round trips a probe times together.
enum { AM_BATCH = 16 };

// am_send is one message to send. Its header and payload are in a slot.
typedef struct {
	uint32_t slot;
	uint32_t peer;
	uint64_t size; // of the payload
} am_send;

// am_arrival is one message that has arrived.
typedef struct {
	uint64_t token;
	void *data;
	uint64_t size;
	uint32_t peer;
	uint32_t kind;
	union { // how the library's half frees the payload
		struct { // where libfabric put it
			void *receive; // posted again once the arrival is taken, or NULL
			void *copy;    // freed then, or NULL
		};
		struct { // where UCX put it
			void *held;     // what release frees
			uint64_t route; // one of HELD_*: how
		};
	};
} am_arrival;

// am_pool has slots of one size, and a stack of the free ones.
typedef struct {
	char *base;
	uint64_t stride;
	uint32_t *free;
	uint32_t left; // free slots
	uint32_t count;
} am_pool;

static inline uint32_t am_pool_take(am_pool *p) { return p->free[--p->left]; }
static inline void am_pool_give(am_pool *p, uint32_t slot) { p->free[p->left++] = slot; }
static inline char *am_pool_at(am_pool *p, uint32_t slot) { return p->base + slot * p->stride; }

// am_shared is the part of a worker that Go reads and writes.
typedef struct {
	uint32_t queued;  // entries in sends
	uint32_t pending; // sends that the library has not completed
	uint64_t arrived; // arrivals so far; written by C
	uint64_t taken;   // arrivals handed out; written by Go
	am_pool small, large; // memory of messages to send
	am_send *sends;
	am_arrival *ring;
	uint64_t mask; // of the ring
	uint64_t nonce;
} am_shared;

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

// am_wait is spin.Wait of core/fabric/spin in C, with the same constants, in nanoseconds.
typedef struct {
	uint64_t began; // when the clock was first read in this wait; 0 if not yet
	uint64_t sleep; // when the thread sleeps next
	uint64_t spin;  // SPIN_TIMES the longest recent wait; 0 if none is known
} am_wait;

enum { SPIN_TIMES = 4, SPIN_DECAY = 6 };
enum { LEAST_SPIN = 100000, FIRST_SPIN = 1000000, MOST_SPIN = 2000000, REST = 50000 };

// am_spun is called from time to time by a thread that waits. It sleeps if the thread has been
// spinning for long.
static inline void am_spun(am_wait *w, uint64_t now)
{
	static const struct timespec rest = {0, REST};
	if (w->began == 0) {
		w->began = now;
		w->sleep = now + (w->spin == 0 ? FIRST_SPIN : w->spin < LEAST_SPIN ? LEAST_SPIN : w->spin);
	} else if (now >= w->sleep) {
		nanosleep(&rest, NULL);
		w->sleep = now_ns() + LEAST_SPIN;
	}
}

// am_found is called when a wait has ended.
static inline void am_found(am_wait *w)
{
	w->spin -= w->spin >> SPIN_DECAY;
	if (w->began != 0) {
		uint64_t spin = SPIN_TIMES * (now_ns() - w->began);
		spin = spin < MOST_SPIN ? spin : MOST_SPIN;
		w->spin = w->spin > spin ? w->spin : spin;
		w->began = 0;
	}
	w->spin += w->spin == 0;
}

// am_probe is what a worker knows of a probe of its library.
typedef struct {
	int on;
	uint32_t kind, peer; // of the last message of a probe; kind 0 means none
	uint64_t token;
	uint32_t number;
} am_probe;

#endif
