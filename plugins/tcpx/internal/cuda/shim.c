//go:build cuda && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// Constants of the driver API.
enum {
	STREAM_NON_BLOCKING = 1,  // CU_STREAM_NON_BLOCKING
	EVENT_DISABLE_TIMING = 2, // CU_EVENT_DISABLE_TIMING
	HOST_PORTABLE = 1,        // CU_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTALLOC_PORTABLE
	HOST_DEVICEMAP = 2,       // CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP
};

// CUmemLocation, CUmemAllocationProp and CUmemAccessDesc.
struct location {
	int type; // CU_MEM_LOCATION_TYPE_DEVICE
	int id;
};
struct properties {
	int type; // CU_MEM_ALLOCATION_TYPE_PINNED
	int handle_types;
	struct location location;
	void *unused;
	unsigned char flags[8];
};
struct access {
	struct location location;
	int flags; // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
enum { LOCATION_DEVICE = 1, TYPE_PINNED = 1, ACCESS_READWRITE = 3, GRANULARITY_MINIMUM = 0 };

// FUNCTIONS lists the functions to look up: member, symbol and parameters.
#define FUNCTIONS(F)                                                                         \
	F(error_name, cuGetErrorName, (int, const char **))                                  \
	F(error_string, cuGetErrorString, (int, const char **))                              \
	F(init, cuInit, (unsigned))                                                          \
	F(version, cuDriverGetVersion, (int *))                                              \
	F(device_count, cuDeviceGetCount, (int *))                                           \
	F(device, cuDeviceGet, (int *, int))                                                 \
	F(device_name, cuDeviceGetName, (char *, int, int))                                  \
	F(retain, cuDevicePrimaryCtxRetain, (void **, int))                                  \
	F(release, cuDevicePrimaryCtxRelease_v2, (int))                                      \
	F(set_current, cuCtxSetCurrent, (void *))                                            \
	F(load_module, cuModuleLoadData, (void **, const void *))                            \
	F(unload_module, cuModuleUnload, (void *))                                           \
	F(function, cuModuleGetFunction, (void **, void *, const char *))                    \
	F(new_stream, cuStreamCreate, (void **, unsigned))                                   \
	F(destroy_stream, cuStreamDestroy_v2, (void *))                                      \
	F(synchronize, cuStreamSynchronize, (void *))                                        \
	F(new_event, cuEventCreate, (void **, unsigned))                                     \
	F(destroy_event, cuEventDestroy_v2, (void *))                                        \
	F(record, cuEventRecord, (void *, void *))                                           \
	F(query, cuEventQuery, (void *))                                                     \
	F(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned))                   \
	F(host_unregister, cuMemHostUnregister, (void *))                                    \
	F(host_address, cuMemHostGetDevicePointer_v2, (tcu_address *, void *, unsigned))     \
	F(host_alloc, cuMemHostAlloc, (void **, size_t, unsigned))                           \
	F(host_free, cuMemFreeHost, (void *))                                                \
	F(granularity, cuMemGetAllocationGranularity, (size_t *, const struct properties *, int)) \
	F(create, cuMemCreate, (uint64_t *, size_t, const struct properties *, uint64_t))    \
	F(drop, cuMemRelease, (uint64_t))                                                    \
	F(reserve, cuMemAddressReserve, (tcu_address *, size_t, size_t, tcu_address, uint64_t)) \
	F(unreserve, cuMemAddressFree, (tcu_address, size_t))                                \
	F(map, cuMemMap, (tcu_address, size_t, size_t, uint64_t, uint64_t))                  \
	F(unmap, cuMemUnmap, (tcu_address, size_t))                                          \
	F(set_access, cuMemSetAccess, (tcu_address, size_t, const struct access *, size_t))  \
	F(copy_in, cuMemcpyHtoDAsync_v2, (tcu_address, const void *, size_t, void *))        \
	F(copy_out, cuMemcpyDtoHAsync_v2, (void *, tcu_address, size_t, void *))             \
	F(launch, cuLaunchKernel,                                                            \
	  (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

struct tcu_driver {
	void *library;
#define MEMBER(member, symbol, parameters) tcu_result (*member) parameters;
	FUNCTIONS(MEMBER)
#undef MEMBER
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
#define LOOK_UP(member, symbol, parameters)                  \
	*(void **)&d->member = dlsym(d->library, #symbol);   \
	if (d->member == NULL) {                             \
		snprintf(message, size, "%s", dlerror());    \
		dlclose(d->library);                         \
		free(d);                                     \
		return NULL;                                 \
	}
	FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	return d;
}

const char *tcu_error_name(struct tcu_driver *d, tcu_result code)
{
	const char *text = NULL;
	return d->error_name(code, &text) == 0 ? text : NULL;
}

const char *tcu_error_text(struct tcu_driver *d, tcu_result code)
{
	const char *text = NULL;
	return d->error_string(code, &text) == 0 ? text : NULL;
}

tcu_result tcu_init(struct tcu_driver *d) { return d->init(0); }
tcu_result tcu_version(struct tcu_driver *d, int *version) { return d->version(version); }
tcu_result tcu_device_count(struct tcu_driver *d, int *count) { return d->device_count(count); }
tcu_result tcu_device(struct tcu_driver *d, int *device, int ordinal) { return d->device(device, ordinal); }

tcu_result tcu_device_name(struct tcu_driver *d, char *name, int size, int device)
{
	return d->device_name(name, size, device);
}

tcu_result tcu_retain(struct tcu_driver *d, void **context, int device) { return d->retain(context, device); }
tcu_result tcu_release(struct tcu_driver *d, int device) { return d->release(device); }
tcu_result tcu_set_current(struct tcu_driver *d, void *context) { return d->set_current(context); }

tcu_result tcu_load_module(struct tcu_driver *d, void **module, const void *image)
{
	return d->load_module(module, image);
}

tcu_result tcu_unload_module(struct tcu_driver *d, void *module) { return d->unload_module(module); }

tcu_result tcu_function(struct tcu_driver *d, void **function, void *module, const char *name)
{
	return d->function(function, module, name);
}

tcu_result tcu_new_stream(struct tcu_driver *d, uintptr_t *stream)
{
	return d->new_stream((void **)stream, STREAM_NON_BLOCKING);
}

tcu_result tcu_destroy_stream(struct tcu_driver *d, uintptr_t stream) { return d->destroy_stream((void *)stream); }
tcu_result tcu_synchronize(struct tcu_driver *d, uintptr_t stream) { return d->synchronize((void *)stream); }

tcu_result tcu_new_event(struct tcu_driver *d, uintptr_t *event)
{
	return d->new_event((void **)event, EVENT_DISABLE_TIMING);
}

tcu_result tcu_destroy_event(struct tcu_driver *d, uintptr_t event) { return d->destroy_event((void *)event); }

tcu_result tcu_record(struct tcu_driver *d, uintptr_t event, uintptr_t stream)
{
	return d->record((void *)event, (void *)stream);
}

tcu_result tcu_query(struct tcu_driver *d, uintptr_t event) { return d->query((void *)event); }

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

tcu_result tcu_unregister(struct tcu_driver *d, void *memory) { return d->host_unregister(memory); }

tcu_result tcu_host_alloc(struct tcu_driver *d, size_t size, void **memory, tcu_address *address)
{
	tcu_result result = d->host_alloc(memory, size, HOST_PORTABLE | HOST_DEVICEMAP);
	if (result != 0)
		return result;
	result = d->host_address(address, *memory, 0);
	if (result != 0)
		d->host_free(*memory);
	return result;
}

tcu_result tcu_host_free(struct tcu_driver *d, void *memory) { return d->host_free(memory); }

tcu_result tcu_alloc_ring(struct tcu_driver *d, int device, size_t *size, tcu_address *address, const char **call)
{
	struct location location = {LOCATION_DEVICE, device};
	struct properties properties = {.type = TYPE_PINNED, .location = location};
	struct access access = {location, ACCESS_READWRITE};
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

tcu_result tcu_copy_in(struct tcu_driver *d, tcu_address to, const void *from, size_t size, uintptr_t stream)
{
	return d->copy_in(to, from, size, (void *)stream);
}

tcu_result tcu_copy_out(struct tcu_driver *d, void *to, tcu_address from, size_t size, uintptr_t stream)
{
	return d->copy_out(to, from, size, (void *)stream);
}

// cuLaunchKernel takes an array of the parameters' addresses and reads them before it
// returns.
tcu_result tcu_launch(struct tcu_driver *d, void *function, unsigned blocks, unsigned threads, uintptr_t stream,
		      tcu_address descriptors, uint32_t count, tcu_address source, tcu_address destination)
{
	void *parameters[] = {&descriptors, &count, &source, &destination};
	return d->launch(function, blocks, 1, 1, threads, 1, 1, 0, (void *)stream, parameters, NULL);
}
