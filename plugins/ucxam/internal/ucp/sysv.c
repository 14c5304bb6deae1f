//go:build ucx && cgo

#define _GNU_SOURCE
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// shmget replaces the C library's, which UCX calls with mode 0660 whatever the umask is
// (UCT_MM_SYSV_PERM in src/uct/sm/mm/sysv/mm_sysv.c): every member of the user's group could write to
// the rings. The loader finds this definition first, because the linker exports a function of the
// program that one of its libraries wants.
int shmget(key_t key, size_t size, int flags)
{
	return (int)syscall(SYS_shmget, key, size, flags & ~(S_IRWXG | S_IRWXO));
}
