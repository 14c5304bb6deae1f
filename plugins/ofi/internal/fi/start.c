//go:build ofi && cgo

// What libfabric and its libraries do when a process starts, which takes 0.3 s on a machine without RDMA.
// The functions of the C library below stand before their use of them, as in memory.c.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// started is set after the constructors of libraries, which run before the program's.
static int started;
static __attribute__((constructor)) void program_starts(void) { started = 1; }

// called_by reports whether an address is within a library with that in its name.
static int called_by(const void *address, const char *name)
{
	Dl_info info;
	return dladdr(address, &info) != 0 && info.dli_fname != NULL && strstr(info.dli_fname, name) != NULL;
}

// skip_calibration reports whether the caller is a constructor of libpsm2 or libinfinipath, the libraries of Omni-Path
// and InfiniPath devices, and must not compare clocks: each sleeps for 0.1 s over it, and the kernel's RDMA core is not loaded.
static int skip_calibration(const void *caller)
{
	return !started && (called_by(caller, "libpsm2") || called_by(caller, "libinfinipath")) && access("/sys/class/infiniband", F_OK) != 0;
}

// gettimeofday is the C library's, except for these constructors: they give up when time runs backwards, and take
// the processor's speed from /proc/cpuinfo. Other libraries that the program links see no difference.
int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	static time_t calls;
	struct timespec t;
	if (zone != NULL)
		memset(zone, 0, sizeof(struct timezone));
	clock_gettime(CLOCK_REALTIME, &t);
	*tv = (struct timeval){ .tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000 };
	if (skip_calibration(__builtin_return_address(0)))
		tv->tv_sec -= ++calls;
	return 0;
}

// fopen is the C library's, with two exceptions. The constructors above read a speed that agrees with
// what they found, about which they would otherwise complain. And libfabric does not find the
// kernel's symbols: its provider verbs (1.17) reads all of them twice when it starts, which takes 0.1 s with any
// provider, to learn whether the kernel registers memory of GPUs. This transport has none.
FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static char speed[] = "cpu MHz : 1000000\n";
	static _Atomic(void *) next;
	const void *caller = __builtin_return_address(0);
	if (strcmp(path, "/proc/kallsyms") == 0 && called_by(caller, "libfabric")) {
		errno = ENOENT;
		return NULL;
	}
	if (strcmp(path, "/proc/cpuinfo") == 0 && skip_calibration(caller))
		return fmemopen(speed, sizeof speed - 1, "r");
	if (next == NULL)
		next = dlsym(RTLD_NEXT, "fopen");
	FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) next;
	return real(path, mode);
}
