//go:build ofi && cgo

// What libfabric's provider shm leaves to its process: where its files are, and what becomes of
// a lock whose holder is killed. The functions of the C library below stand before libfabric's
// use of them, because the linker resolves a library's undefined symbols in the program first.

#define _GNU_SOURCE

#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// path_of writes the path of a name of shared memory. Names may have a directory, which the C library
// does not allow, but no way out of /dev/shm: peers send them.
static int path_of(const char *name, char *path, size_t size)
{
	while (*name == '/')
		name++;
	if (*name == 0 || strstr(name, "..") != NULL)
		return EINVAL;
	int length = snprintf(path, size, "/dev/shm/%s", name);
	return length < 0 || (size_t)length >= size ? ENAMETOOLONG : 0;
}

// shm_open is the C library's, with names that have a directory.
int shm_open(const char *name, int flags, mode_t mode)
{
	char path[PATH_MAX];
	int error = path_of(name, path, sizeof path);
	if (error != 0) {
		errno = error;
		return -1;
	}
	return open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode);
}

// shm_unlink is the C library's, with names that have a directory.
int shm_unlink(const char *name)
{
	char path[PATH_MAX];
	int error = path_of(name, path, sizeof path);
	if (error != 0) {
		errno = error;
		return -1;
	}
	return unlink(path);
}

// A thread waits LOCK_PATIENCE for a lock that a killed process may hold, within AFTER_DEATH after a
// peer's process has ended, and later LONG_PATIENCE. A process that runs holds one of libfabric's for
// less than a microsecond, or as long as it is preempted; one that is stopped for longer than
// LONG_PATIENCE does not come back, because its run has ended.
enum { LOCK_PATIENCE_MS = 500, AFTER_DEATH_MS = 5000, LONG_PATIENCE_MS = 15000, LOOKS = 1024 };

static uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// last_death is when the process of a peer ended last, in milliseconds; 0 if none has.
static atomic_uint_fast64_t last_death;

// fb_process_died is called when the process of a peer has ended. Any thread may call it.
int fb_process_died(void) { return atomic_exchange(&last_death, now_ms()) != 0; }

// pthread_spin_lock is the C library's, except that a lock whose holder is dead is taken over.
// The provider shm of libfabric 1.17 has such locks in memory that processes share, and a
// process that is killed while it holds one would make all others spin forever.
int pthread_spin_lock(pthread_spinlock_t *lock)
{
	uint64_t began = 0;
	for (uint32_t looks = 1; pthread_spin_trylock(lock) != 0; looks++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb" ::: "memory"); // as core/fabric/spin
#endif
		uint64_t death = atomic_load(&last_death), now;
		if (looks % LOOKS != 0 || death == 0)
			continue;
		now = now_ms();
		if (began == 0)
			began = now;
		else if (now - began > (now < death + AFTER_DEATH_MS ? LOCK_PATIENCE_MS : LONG_PATIENCE_MS))
			return 0; // it is locked, and from now on by this thread
	}
	return 0;
}
