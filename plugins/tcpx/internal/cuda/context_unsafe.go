//go:build cuda && cgo

package cuda

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Context is the primary context of one GPU, with the unpack kernel loaded. CUDA's current
// context belongs to a thread, so call all methods on the OS thread that called Open.
type Context struct {
	d           *C.struct_tcu_driver
	device      C.int
	module      unsafe.Pointer
	function    unsafe.Pointer
	description Description
}

// drivers are the loaded drivers, by library name. They are never unloaded, because a driver
// has its own threads.
var (
	mu      sync.Mutex
	drivers = map[string]*C.struct_tcu_driver{}
)

func load(library string) (*C.struct_tcu_driver, error) {
	mu.Lock()
	defer mu.Unlock()
	if d := drivers[library]; d != nil {
		return d, nil
	}
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var message [512]C.char
	d := C.tcu_load(name, &message[0], C.size_t(len(message)))
	if d == nil {
		return nil, errors.New(C.GoString(&message[0]))
	}
	drivers[library] = d
	return d, nil
}

// Open loads the driver from library, which ld.so(8) finds, and compiles the kernel for the
// GPU with this ordinal (from 0), which can take seconds. The caller must have locked its OS
// thread. An error of the loader has the loader's text; one of the driver is an [*Error].
func Open(library string, ordinal int) (*Context, error) {
	d, err := load(library)
	if err != nil {
		return nil, err
	}
	c := &Context{d: d, device: -1}
	if err := c.open(ordinal); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Context) open(ordinal int) error {
	if err := c.check("cuInit", C.tcu_init(c.d, 0)); err != nil {
		return err
	}
	var encoded, count C.int
	if err := c.check("cuDriverGetVersion", C.tcu_version(c.d, &encoded)); err != nil {
		return err
	}
	if err := c.check("cuDeviceGetCount", C.tcu_device_count(c.d, &count)); err != nil {
		return err
	}
	if ordinal >= int(count) {
		return fmt.Errorf("there is no GPU %d: the driver has %d", ordinal, int(count))
	}
	var device C.int
	if err := c.check("cuDeviceGet", C.tcu_device(c.d, &device, C.int(ordinal))); err != nil {
		return err
	}
	var name [128]C.char
	if err := c.check("cuDeviceGetName", C.tcu_device_name(c.d, &name[0], C.int(len(name)),
		device)); err != nil {
		return err
	}
	c.description = Description{Device: C.GoString(&name[0]), Driver: version(int(encoded))}
	var context unsafe.Pointer
	if err := c.check("cuDevicePrimaryCtxRetain", C.tcu_retain(c.d, &context, device)); err != nil {
		return err
	}
	c.device = device
	if err := c.check("cuCtxSetCurrent", C.tcu_set_current(c.d, context)); err != nil {
		return err
	}
	return c.loadKernel()
}

func (c *Context) loadKernel() error {
	text, entry := C.CString(kernel), C.CString(Entry)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(entry))
	if err := c.check("cuModuleLoadData",
		C.tcu_load_module(c.d, &c.module, unsafe.Pointer(text))); err != nil {
		c.module = nil
		return err
	}
	return c.check("cuModuleGetFunction", C.tcu_function(c.d, &c.function, c.module, entry))
}

func (c *Context) check(call string, code C.tcu_result) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: int(code), Name: "unknown error",
		Text: "the driver has no description"}
	var name, text *C.char
	if C.tcu_get_error_name(c.d, code, &name) == 0 && name != nil {
		e.Name = C.GoString(name)
	}
	if C.tcu_get_error_string(c.d, code, &text) == 0 && text != nil {
		e.Text = C.GoString(text)
	}
	return e
}

// Description returns the GPU and the driver of the context.
func (c *Context) Description() Description { return c.description }

// NewStream makes a stream that does not synchronize with the default stream.
func (c *Context) NewStream() (Stream, error) {
	var s C.tcu_stream
	err := c.check("cuStreamCreate", C.tcu_new_stream(c.d, &s, C.TCU_STREAM_NON_BLOCKING))
	return Stream(s), err
}

// DestroyStream destroys a stream.
func (c *Context) DestroyStream(s Stream) error {
	return c.check("cuStreamDestroy", C.tcu_destroy_stream(c.d, C.tcu_stream(s)))
}

// Synchronize blocks until all work of the stream is done.
func (c *Context) Synchronize(s Stream) error {
	return c.check("cuStreamSynchronize", C.tcu_synchronize(c.d, C.tcu_stream(s)))
}

// NewEvent makes an event without timing, which is cheaper.
func (c *Context) NewEvent() (Event, error) {
	var e C.tcu_event
	err := c.check("cuEventCreate", C.tcu_new_event(c.d, &e, C.TCU_EVENT_DISABLE_TIMING))
	return Event(e), err
}

// DestroyEvent destroys an event.
func (c *Context) DestroyEvent(e Event) error {
	return c.check("cuEventDestroy", C.tcu_destroy_event(c.d, C.tcu_event(e)))
}

// Record puts the event after all work in the stream.
func (c *Context) Record(e Event, s Stream) error {
	return c.check("cuEventRecord", C.tcu_record(c.d, C.tcu_event(e), C.tcu_stream(s)))
}

// notReady is CUDA_ERROR_NOT_READY.
const notReady = 600

// Query reports whether the stream has passed the event. It does not block.
func (c *Context) Query(e Event) (bool, error) {
	code := C.tcu_query(c.d, C.tcu_event(e))
	if code == notReady {
		return false, nil
	}
	return code == 0, c.check("cuEventQuery", code)
}

// Register pins host memory and returns its address for the GPU. The caller owns the memory
// and keeps it mapped until Unregister.
func (c *Context) Register(memory []byte) (Address, error) {
	var address C.tcu_address
	err := c.check("cuMemHostRegister", C.tcu_register(c.d,
		unsafe.Pointer(unsafe.SliceData(memory)), C.size_t(len(memory)), &address))
	return Address(address), err
}

// Unregister unpins memory that Register pinned.
func (c *Context) Unregister(memory []byte) error {
	return c.check("cuMemHostUnregister",
		C.tcu_host_unregister(c.d, unsafe.Pointer(unsafe.SliceData(memory))))
}

// HostAlloc allocates pinned host memory, page aligned, and returns it with its address for
// the GPU. HostFree frees it.
func (c *Context) HostAlloc(size int) ([]byte, Address, error) {
	var memory unsafe.Pointer
	var address C.tcu_address
	if err := c.check("cuMemHostAlloc", C.tcu_host_alloc(c.d, C.size_t(size), &memory,
		&address)); err != nil {
		return nil, 0, err
	}
	return unsafe.Slice((*byte)(memory), size), Address(address), nil
}

// HostFree frees memory of HostAlloc.
func (c *Context) HostFree(memory []byte) error {
	return c.check("cuMemFreeHost", C.tcu_mem_free_host(c.d,
		unsafe.Pointer(unsafe.SliceData(memory))))
}

// AllocRing allocates GPU memory and maps it twice in a row, so that a range that wraps
// around is contiguous. It rounds the size up to the GPU's mapping granularity, usually
// 2 MiB, and returns it; the mapping is twice as long. A later launch sees through one
// mapping what an earlier one wrote through the other.
func (c *Context) AllocRing(size int) (Address, int, error) {
	whole, address, call := C.size_t(size), C.tcu_address(0), (*C.char)(nil)
	code := C.tcu_alloc_ring(c.d, c.device, &whole, &address, &call)
	return Address(address), int(whole), c.check(C.GoString(call), code)
}

// FreeRing frees memory of AllocRing.
func (c *Context) FreeRing(a Address, size int) error {
	return c.check("cuMemUnmap", C.tcu_free_ring(c.d, C.size_t(size), C.tcu_address(a)))
}

// Alloc allocates GPU memory.
func (c *Context) Alloc(size int) (Address, error) {
	var address C.tcu_address
	err := c.check("cuMemAlloc", C.tcu_mem_alloc(c.d, &address, C.size_t(size)))
	return Address(address), err
}

// Free frees memory of Alloc.
func (c *Context) Free(a Address) error {
	return c.check("cuMemFree", C.tcu_mem_free(c.d, C.tcu_address(a)))
}

// Export returns the descriptor of a dmabuf that is a range of memory of Alloc, both ends at pages
// of the host. The caller closes it.
func (c *Context) Export(a Address, size int) (descriptor int, err error) {
	var fd C.int
	err = c.check("cuMemGetHandleForAddressRange", C.tcu_range_handle(c.d, unsafe.Pointer(&fd),
		C.tcu_address(a), C.size_t(size), C.TCU_DMABUF, 0))
	return int(fd), err
}

// CopyIn copies registered or pinned host memory to the GPU, in stream order. Do not change
// the memory until the stream has passed the copy.
func (c *Context) CopyIn(s Stream, to Address, from []byte) error {
	return c.check("cuMemcpyHtoDAsync", C.tcu_copy_in(c.d, C.tcu_address(to),
		unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)), C.tcu_stream(s)))
}

// CopyOut copies GPU memory to registered or pinned host memory, in stream order.
func (c *Context) CopyOut(s Stream, to []byte, from Address) error {
	return c.check("cuMemcpyDtoHAsync", C.tcu_copy_out(c.d, unsafe.Pointer(unsafe.SliceData(to)),
		C.tcu_address(from), C.size_t(len(to)), C.tcu_stream(s)))
}

// Launch starts the unpack kernel over count descriptors, in stream order. count must be
// positive.
func (c *Context) Launch(s Stream, descriptors Address, count int,
	source, destination Address) error {
	return c.check("cuLaunchKernel", C.tcu_launch(c.d, c.function, C.uint(Blocks(count)), Block,
		C.tcu_stream(s),
		C.tcu_address(descriptors), C.uint32_t(count), C.tcu_address(source),
		C.tcu_address(destination)))
}

// Close closes the context. Free everything that was made with it first.
func (c *Context) Close() error {
	var errs []error
	if c.module != nil {
		errs = append(errs, c.check("cuModuleUnload", C.tcu_unload_module(c.d, c.module)))
	}
	if c.device >= 0 {
		errs = append(errs, c.check("cuCtxSetCurrent", C.tcu_set_current(c.d, nil)),
			c.check("cuDevicePrimaryCtxRelease", C.tcu_release(c.d, c.device)))
	}
	return errors.Join(errs...)
}
