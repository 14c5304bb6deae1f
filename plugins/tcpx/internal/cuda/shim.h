#ifndef TCPX_CUDA_SHIM_H
#define TCPX_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

// The types of the driver API that the calls below use, so that no CUDA header is needed.
typedef int tcu_result;
typedef uint64_t tcu_address;

struct tcu_driver;

// tcu_load opens the library and looks up the functions. If that fails, it copies the
// loader's message and returns NULL.
struct tcu_driver *tcu_load(const char *library, char *message, size_t size);

const char *tcu_error_name(struct tcu_driver *d, tcu_result code);
const char *tcu_error_text(struct tcu_driver *d, tcu_result code);

tcu_result tcu_init(struct tcu_driver *d);
tcu_result tcu_version(struct tcu_driver *d, int *version);
tcu_result tcu_device_count(struct tcu_driver *d, int *count);
tcu_result tcu_device(struct tcu_driver *d, int *device, int ordinal);
tcu_result tcu_device_name(struct tcu_driver *d, char *name, int size, int device);
tcu_result tcu_retain(struct tcu_driver *d, void **context, int device);
tcu_result tcu_release(struct tcu_driver *d, int device);
tcu_result tcu_set_current(struct tcu_driver *d, void *context);
tcu_result tcu_load_module(struct tcu_driver *d, void **module, const void *image);
tcu_result tcu_unload_module(struct tcu_driver *d, void *module);
tcu_result tcu_function(struct tcu_driver *d, void **function, void *module, const char *name);
tcu_result tcu_new_stream(struct tcu_driver *d, uintptr_t *stream);
tcu_result tcu_destroy_stream(struct tcu_driver *d, uintptr_t stream);
tcu_result tcu_synchronize(struct tcu_driver *d, uintptr_t stream);
tcu_result tcu_new_event(struct tcu_driver *d, uintptr_t *event);
tcu_result tcu_destroy_event(struct tcu_driver *d, uintptr_t event);
tcu_result tcu_record(struct tcu_driver *d, uintptr_t event, uintptr_t stream);
tcu_result tcu_query(struct tcu_driver *d, uintptr_t event);
tcu_result tcu_register(struct tcu_driver *d, void *memory, size_t size, tcu_address *address);
tcu_result tcu_unregister(struct tcu_driver *d, void *memory);
tcu_result tcu_host_alloc(struct tcu_driver *d, size_t size, void **memory, tcu_address *address);
tcu_result tcu_host_free(struct tcu_driver *d, void *memory);

// tcu_alloc_ring allocates device memory and maps it twice in a row. It rounds *size up to
// the device's mapping granularity. *call is the name of the call whose result it returns.
tcu_result tcu_alloc_ring(struct tcu_driver *d, int device, size_t *size, tcu_address *address, const char **call);
tcu_result tcu_free_ring(struct tcu_driver *d, size_t size, tcu_address address);

tcu_result tcu_copy_in(struct tcu_driver *d, tcu_address to, const void *from, size_t size, uintptr_t stream);
tcu_result tcu_copy_out(struct tcu_driver *d, void *to, tcu_address from, size_t size, uintptr_t stream);
tcu_result tcu_launch(struct tcu_driver *d, void *function, unsigned blocks, unsigned threads, uintptr_t stream,
		      tcu_address descriptors, uint32_t count, tcu_address source, tcu_address destination);

#endif
