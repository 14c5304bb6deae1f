//go:build ofi && cgo

// What libfabric does when it starts. The function of the C library below stands before its use of it, as in
// memory.c.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

// fopen is the C library's, except that the kernel's symbols are not there. The provider verbs of libfabric
// 1.17 reads all of them twice when libfabric starts, which takes 0.1 s with any provider, to learn whether the
// kernel registers memory of GPUs. This transport has none.
FILE *fopen(const char *restrict path, const char *restrict mode)
{
	static _Atomic(void *) next;
	FILE *(*real)(const char *, const char *);
	if (strcmp(path, "/proc/kallsyms") == 0) {
		errno = ENOENT;
		return NULL;
	}
	if (next == NULL)
		next = dlsym(RTLD_NEXT, "fopen");
	real = (FILE * (*)(const char *, const char *)) next;
	return real(path, mode);
}
