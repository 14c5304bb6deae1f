#ifndef TCPX_CUDA_SHIM_H
#define TCPX_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

// The types of the driver API that the calls below use, so that no CUDA header is needed.
// Streams and events are pointers there; here they are integers, so that Go can keep them.
typedef int tcu_result;
typedef uint64_t tcu_address;
typedef uintptr_t tcu_stream;
typedef uintptr_t tcu_event;

enum {
	TCU_STREAM_NON_BLOCKING = 1,  // CU_STREAM_NON_BLOCKING
	TCU_EVENT_DISABLE_TIMING = 2, // CU_EVENT_DISABLE_TIMING
	TCU_DMABUF = 1,               // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
};

struct tcu_properties; // CUmemAllocationProp
struct tcu_access;     // CUmemAccessDesc

// TCU_FUNCTIONS lists the functions of the driver: name, symbol, arguments and parameters.
#define TCU_FUNCTIONS(F)                                                                                        \
	F(get_error_name, cuGetErrorName, (code, text), tcu_result code, const char **text)                     \
	F(get_error_string, cuGetErrorString, (code, text), tcu_result code, const char **text)                 \
	F(init, cuInit, (flags), unsigned flags)                                                                \
	F(version, cuDriverGetVersion, (version), int *version)                                                 \
	F(device_count, cuDeviceGetCount, (count), int *count)                                                  \
	F(device, cuDeviceGet, (device, ordinal), int *device, int ordinal)                                     \
	F(device_name, cuDeviceGetName, (name, size, device), char *name, int size, int device)                 \
	F(retain, cuDevicePrimaryCtxRetain, (context, device), void **context, int device)                      \
	F(release, cuDevicePrimaryCtxRelease_v2, (device), int device)                                          \
	F(set_current, cuCtxSetCurrent, (context), void *context)                                               \
	F(load_module, cuModuleLoadData, (module, image), void **module, const void *image)                     \
	F(unload_module, cuModuleUnload, (module), void *module)                                                \
	F(function, cuModuleGetFunction, (function, module, name), void **function, void *module, const char *name) \
	F(new_stream, cuStreamCreate, (stream, flags), tcu_stream *stream, unsigned flags)                      \
	F(destroy_stream, cuStreamDestroy_v2, (stream), tcu_stream stream)                                      \
	F(synchronize, cuStreamSynchronize, (stream), tcu_stream stream)                                        \
	F(new_event, cuEventCreate, (event, flags), tcu_event *event, unsigned flags)                           \
	F(destroy_event, cuEventDestroy_v2, (event), tcu_event event)                                           \
	F(record, cuEventRecord, (event, stream), tcu_event event, tcu_stream stream)                           \
	F(query, cuEventQuery, (event), tcu_event event)                                                        \
	F(host_register, cuMemHostRegister_v2, (memory, size, flags), void *memory, size_t size, unsigned flags) \
	F(host_unregister, cuMemHostUnregister, (memory), void *memory)                                         \
	F(host_address, cuMemHostGetDevicePointer_v2, (address, memory, flags), tcu_address *address, void *memory, \
	  unsigned flags)                                                                                       \
	F(mem_host_alloc, cuMemHostAlloc, (memory, size, flags), void **memory, size_t size, unsigned flags)    \
	F(mem_free_host, cuMemFreeHost, (memory), void *memory)                                                 \
	F(granularity, cuMemGetAllocationGranularity, (size, properties, option), size_t *size,                 \
	  const struct tcu_properties *properties, int option)                                                  \
	F(create, cuMemCreate, (memory, size, properties, flags), uint64_t *memory, size_t size,                \
	  const struct tcu_properties *properties, uint64_t flags)                                              \
	F(drop, cuMemRelease, (memory), uint64_t memory)                                                        \
	F(reserve, cuMemAddressReserve, (address, size, alignment, wanted, flags), tcu_address *address, size_t size, \
	  size_t alignment, tcu_address wanted, uint64_t flags)                                                 \
	F(unreserve, cuMemAddressFree, (address, size), tcu_address address, size_t size)                       \
	F(map, cuMemMap, (address, size, offset, memory, flags), tcu_address address, size_t size, size_t offset, \
	  uint64_t memory, uint64_t flags)                                                                      \
	F(unmap, cuMemUnmap, (address, size), tcu_address address, size_t size)                                 \
	F(set_access, cuMemSetAccess, (address, size, access, count), tcu_address address, size_t size,         \
	  const struct tcu_access *access, size_t count)                                                        \
	F(mem_alloc, cuMemAlloc_v2, (address, size), tcu_address *address, size_t size)                         \
	F(mem_free, cuMemFree_v2, (address), tcu_address address)                                               \
	F(range_handle, cuMemGetHandleForAddressRange, (handle, address, size, type, flags), void *handle,      \
	  tcu_address address, size_t size, int type, uint64_t flags)                                           \
	F(copy_in, cuMemcpyHtoDAsync_v2, (to, from, size, stream), tcu_address to, const void *from, size_t size, \
	  tcu_stream stream)                                                                                    \
	F(copy_out, cuMemcpyDtoHAsync_v2, (to, from, size, stream), void *to, tcu_address from, size_t size,    \
	  tcu_stream stream)                                                                                    \
	F(launch_kernel, cuLaunchKernel, (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra), \
	  void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,         \
	  unsigned shared, tcu_stream stream, void **parameters, void **extra)

// tcu_driver is a loaded driver: a pointer to each function.
struct tcu_driver {
	void *library;
#define TCU_MEMBER(name, symbol, arguments, ...) tcu_result (*name)(__VA_ARGS__);
	TCU_FUNCTIONS(TCU_MEMBER)
#undef TCU_MEMBER
};

// tcu_NAME calls a function of the driver, because Go cannot call a function pointer.
#define TCU_CALL(name, symbol, arguments, ...) \
	static inline tcu_result tcu_##name(struct tcu_driver *d, __VA_ARGS__) { return d->name arguments; }
TCU_FUNCTIONS(TCU_CALL)
#undef TCU_CALL

// tcu_load opens the library and looks up the functions. If that fails, it copies the
// loader's message and returns NULL.
struct tcu_driver *tcu_load(const char *library, char *message, size_t size);

// tcu_register pins host memory and maps it for the GPU; tcu_host_alloc allocates such memory.
tcu_result tcu_register(struct tcu_driver *d, void *memory, size_t size, tcu_address *address);
tcu_result tcu_host_alloc(struct tcu_driver *d, size_t size, void **memory, tcu_address *address);

// tcu_alloc_ring allocates device memory and maps it twice in a row. It rounds *size up to
// the device's mapping granularity. *call is the name of the call whose result it returns.
tcu_result tcu_alloc_ring(struct tcu_driver *d, int device, size_t *size, tcu_address *address, const char **call);
tcu_result tcu_free_ring(struct tcu_driver *d, size_t size, tcu_address address);

tcu_result tcu_launch(struct tcu_driver *d, void *function, unsigned blocks, unsigned threads, tcu_stream stream,
		      tcu_address descriptors, uint32_t count, tcu_address source, tcu_address destination);

#endif
