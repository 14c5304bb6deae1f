//go:build cuda && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// Constants of the driver API.
enum {
	HOST_PORTABLE = 1,        // CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTALLOC_PORTABLE
	HOST_DEVICEMAP = 2,       // CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP
	LOCATION_DEVICE = 1,      // CU_MEM_LOCATION_TYPE_DEVICE
	TYPE_PINNED = 1,          // CU_MEM_ALLOCATION_TYPE_PINNED
	ACCESS_READWRITE = 3,     // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	GRANULARITY_MINIMUM = 0,  // CU_MEM_ALLOC_GRANULARITY_MINIMUM
};

struct location { // CUmemLocation
	int type;
	int id;
};
struct tcu_properties {
	int type;
	int handle_types;
	struct location location;
	void *unused;
	unsigned char flags[8];
};
struct tcu_access {
	struct location location;
	int flags;
};

struct tcu_driver *tcu_load(const char *library, char *message, size_t size)
{
	struct tcu_driver *d = calloc(1, sizeof *d);
	if (d == NULL) {
		snprintf(message, size, "out of memory");
		return NULL;
	}
	d->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (d->library == NULL) {
		snprintf(message, size, "%s", dlerror());
		free(d);
		return NULL;
	}
	// dlsym returns void *, which ISO C does not convert to a function pointer.
#define LOOK_UP(name, symbol, ...)                           \
	*(void **)&d->name = dlsym(d->library, #symbol);     \
	if (d->name == NULL) {                               \
		snprintf(message, size, "%s", dlerror());    \
		dlclose(d->library);                         \
		free(d);                                     \
		return NULL;                                 \
	}
	TCU_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return d;
}

tcu_result tcu_register(struct tcu_driver *d, void *memory, size_t size, tcu_address *address)
{
	tcu_result result = d->host_register(memory, size, HOST_PORTABLE | HOST_DEVICEMAP);
	if (result != 0)
		return result;
	result = d->host_address(address, memory, 0);
	if (result != 0)
		d->host_unregister(memory);
	return result;
}

tcu_result tcu_host_alloc(struct tcu_driver *d, size_t size, void **memory, tcu_address *address)
{
	tcu_result result = d->mem_host_alloc(memory, size, HOST_PORTABLE | HOST_DEVICEMAP);
	if (result != 0)
		return result;
	result = d->host_address(address, *memory, 0);
	if (result != 0)
		d->mem_free_host(*memory);
	return result;
}

tcu_result tcu_alloc_ring(struct tcu_driver *d, int device, size_t *size, tcu_address *address, const char **call)
{
	struct location location = {LOCATION_DEVICE, device};
	struct tcu_properties properties = {.type = TYPE_PINNED, .location = location};
	struct tcu_access access = {location, ACCESS_READWRITE};
	size_t unit;
	*call = "cuMemGetAllocationGranularity";
	tcu_result result = d->granularity(&unit, &properties, GRANULARITY_MINIMUM);
	if (result != 0)
		return result;
	size_t n = *size = (*size + unit - 1) / unit * unit;
	*call = "cuMemAddressReserve";
	result = d->reserve(address, 2 * n, 0, 0, 0);
	if (result != 0)
		return result;
	uint64_t memory;
	*call = "cuMemCreate";
	result = d->create(&memory, n, &properties, 0);
	if (result != 0)
		goto unreserve;
	*call = "cuMemMap";
	result = d->map(*address, n, 0, memory, 0);
	if (result == 0) {
		result = d->map(*address + n, n, 0, memory, 0);
		if (result != 0)
			d->unmap(*address, n);
	}
	// From here on the mappings keep the memory alive.
	d->drop(memory);
	if (result != 0)
		goto unreserve;
	*call = "cuMemSetAccess";
	result = d->set_access(*address, 2 * n, &access, 1);
	if (result == 0)
		return 0;
	d->unmap(*address, n);
	d->unmap(*address + n, n);
unreserve:
	d->unreserve(*address, 2 * n);
	return result;
}

tcu_result tcu_free_ring(struct tcu_driver *d, size_t size, tcu_address address)
{
	tcu_result first = d->unmap(address, size), second = d->unmap(address + size, size);
	tcu_result last = d->unreserve(address, 2 * size);
	return first != 0 ? first : second != 0 ? second : last;
}

// cuLaunchKernel takes an array of the parameters' addresses and reads them before it
// returns.
tcu_result tcu_launch(struct tcu_driver *d, void *function, unsigned blocks, unsigned threads, tcu_stream stream,
		      tcu_address descriptors, uint32_t count, tcu_address source, tcu_address destination)
{
	void *parameters[] = {&descriptors, &count, &source, &destination};
	return d->launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}
