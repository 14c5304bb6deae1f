// A driver for tests: it has the functions of libcuda that the shim looks up, and implements
// them in host memory. A GPU address is a host address with a high bit set, so that confusing
// the two is an error. An event is ready at the second query.
//
// The call named by the environment variable FAIL fails with code 2. Compiled with DAMAGE,
// the kernel writes a wrong last byte in each launch.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GPU ((uint64_t)1 << 62)
#define FAILS(call) do { const char *f = getenv("FAIL"); if (f && !strcmp(f, call)) return 2; } while (0)

struct event { int recorded, asked; };

static int current, entry, live;

int cuGetErrorName(int code, const char **s) { *s = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL; return *s ? 0 : 1; }
// cuGetErrorString returns, as the text of -1, the number of objects that were not freed.
int cuGetErrorString(int code, const char **s)
{
	static char count[16];
	snprintf(count, sizeof count, "%d", live);
	*s = code == -1 ? count : code == 2 ? "out of memory" : NULL;
	return *s ? 0 : 1;
}
int cuInit(unsigned flags) { FAILS("cuInit"); return flags; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *d, int ordinal) { *d = ordinal + 7; return 0; }
int cuDeviceGetName(char *name, int size, int d) { snprintf(name, size, "GPU of tests %d", d); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { FAILS("cuDevicePrimaryCtxRetain"); *c = &current; live++; return d < 7; }
int cuDevicePrimaryCtxRelease_v2(int d) { live--; return d < 7; }
int cuCtxSetCurrent(void *c) { current = c == &current; return 0; }
int cuModuleLoadData(void **m, const void *image)
{
	FAILS("cuModuleLoadData");
	if (!current || !strstr(image, ".entry tcpx_unpack("))
		return 218;
	*m = malloc(1);
	live++;
	return 0;
}
int cuModuleUnload(void *m) { free(m); live--; return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name)
{
	FAILS("cuModuleGetFunction");
	*f = &entry;
	return m == NULL || strcmp(name, "tcpx_unpack");
}
int cuStreamCreate(void **s, unsigned flags) { FAILS("cuStreamCreate"); *s = malloc(1); live++; return flags != 1; }
int cuStreamDestroy_v2(void *s) { free(s); live--; return 0; }
int cuStreamSynchronize(void *s) { FAILS("cuStreamSynchronize"); return s == NULL; }
int cuEventCreate(void **e, unsigned flags) { *e = calloc(1, sizeof(struct event)); live++; return flags != 2; }
int cuEventDestroy_v2(void *e) { free(e); live--; return 0; }
int cuEventRecord(void *e, void *s) { ((struct event *)e)->recorded = s != NULL; ((struct event *)e)->asked = 0; return 0; }
int cuEventQuery(void *e)
{
	FAILS("cuEventQuery");
	struct event *event = e;
	return event->recorded && event->asked++ ? 0 : 600;
}
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) { FAILS("cuMemHostRegister"); live++; return !p || !n || flags != 3; }
int cuMemHostUnregister(void *p) { live--; return p == NULL; }
int cuMemHostGetDevicePointer_v2(uint64_t *a, void *p, unsigned flags)
{
	FAILS("cuMemHostGetDevicePointer");
	*a = (uint64_t)(uintptr_t)p | GPU;
	return flags;
}
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096); live++; return flags != 3; }
int cuMemFreeHost(void *p) { free(p); live--; return 0; }
static char *host(uint64_t a)
{
	if (!(a & GPU))
		abort();
	return (char *)(uintptr_t)(a & ~GPU);
}

struct location { int type, id; };
struct properties { int type, handles; struct location location; void *unused; unsigned char flags[8]; };
struct access { struct location location; int flags; };

static int is_pinned(const struct properties *p)
{
	static const unsigned char none[8];
	return p->type == 1 && p->handles == 0 && p->location.type == 1 && p->location.id >= 7 && !p->unused && !memcmp(p->flags, none, 8);
}
int cuMemGetAllocationGranularity(size_t *unit, const struct properties *p, int option)
{
	FAILS("cuMemGetAllocationGranularity");
	*unit = 1 << 16;
	return !is_pinned(p) || option != 0;
}
int cuMemAddressReserve(uint64_t *a, size_t n, size_t alignment, uint64_t at, uint64_t flags)
{
	FAILS("cuMemAddressReserve");
	*a = (uint64_t)(uintptr_t)mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) | GPU;
	live++;
	return alignment || at || flags;
}
int cuMemAddressFree(uint64_t a, size_t n) { live--; return munmap(host(a), n); }
int cuMemCreate(uint64_t *handle, size_t n, const struct properties *p, uint64_t flags)
{
	FAILS("cuMemCreate");
	int fd = memfd_create("gpu", 0);
	*handle = fd;
	live++;
	return !is_pinned(p) || flags || ftruncate(fd, n);
}
int cuMemRelease(uint64_t handle) { live--; return close(handle); }
int cuMemMap(uint64_t a, size_t n, size_t offset, uint64_t handle, uint64_t flags)
{
	FAILS("cuMemMap");
	live++;
	return offset || flags || mmap(host(a), n, PROT_NONE, MAP_SHARED | MAP_FIXED, handle, 0) == MAP_FAILED;
}
int cuMemUnmap(uint64_t a, size_t n)
{
	live--;
	return mmap(host(a), n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}
int cuMemSetAccess(uint64_t a, size_t n, const struct access *access, size_t count)
{
	FAILS("cuMemSetAccess");
	if (count != 1 || access->location.type != 1 || access->location.id < 7 || access->flags != 3)
		return 1;
	return mprotect(host(a), n, PROT_READ | PROT_WRITE);
}
static int allocated;
int cuMemAlloc_v2(uint64_t *a, size_t n)
{
	FAILS("cuMemAlloc");
	allocated = memfd_create("gpu", 0);
	if (ftruncate(allocated, n))
		return 1;
	*a = (uint64_t)(uintptr_t)mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, allocated, 0) | GPU;
	live++;
	return 0;
}
int cuMemFree_v2(uint64_t a) { live--; return close(allocated) || !host(a); }
int cuMemGetHandleForAddressRange(void *handle, uint64_t a, size_t n, int type, unsigned long long flags)
{
	FAILS("cuMemGetHandleForAddressRange");
	*(int *)handle = dup(allocated);
	return a % 4096 || n % 4096 || type != 1 || flags;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) { memcpy(host(to), from, n); return s == NULL; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) { memcpy(to, host(from), n); return s == NULL; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *s, void **parameters, void **extra)
{
	FAILS("cuLaunchKernel");
	uint32_t count = *(uint32_t *)parameters[1];
	if (f != &entry || gx != (count + 7) / 8 || gy != 1 || gz != 1 || bx != 256 || by != 1 || bz != 1 || shared || !s || extra)
		return 1;
	char *descriptor = host(*(uint64_t *)parameters[0]);
	for (uint32_t i = 0; i < count; i++, descriptor += 16) {
		uint32_t from, n;
		uint64_t to;
		memcpy(&from, descriptor, 4);
		memcpy(&n, descriptor + 4, 4);
		memcpy(&to, descriptor + 8, 8);
		memcpy(host(*(uint64_t *)parameters[3]) + to, host(*(uint64_t *)parameters[2]) + from, n);
#ifdef DAMAGE
		if (i == count - 1 && n)
			host(*(uint64_t *)parameters[3])[to + n - 1] ^= 1;
#endif
	}
	return 0;
}
