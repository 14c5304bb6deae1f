//go:build cuda && cgo

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOpenGivesTheLoadersMessage(t *testing.T) {
	_, err := Open("libcuda-that-nobody-has.so.1", 0)
	require.EqualError(t, err,
		"libcuda-that-nobody-has.so.1: cannot open shared object file: No such file or directory")

	_, err = Open("libc.so.6", 0) // a library, but another one
	require.ErrorContains(t, err, "undefined symbol: cuGetErrorName")
}

// testDriver builds the driver in testdata and opens it on a new thread.
func testDriver(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skipf("the driver of the tests is written in C: %v", err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	library := filepath.Join(t.TempDir(), "driver.so")
	output, err := exec.Command(compiler, "-shared", "-fPIC", "-o", library,
		"testdata/driver.c").CombinedOutput()
	require.NoError(t, err, string(output))
	return library
}

// live returns the driver's count of objects that were made and not freed.
func live(t *testing.T, c *Context) int {
	t.Helper()
	var told *Error
	require.ErrorAs(t, c.check("", -1), &told)
	n, err := strconv.Atoi(told.Text)
	require.NoError(t, err)
	return n
}

// mapped returns memory outside Go's heap, which C may keep.
func mapped(t *testing.T, size int) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	return memory
}

// TestContext makes every call once; the driver checks the parameters.
func TestContext(t *testing.T) {
	c, err := Open(testDriver(t), 1)
	require.NoError(t, err)
	require.Equal(t, Description{Device: "GPU of tests 8", Driver: "12.4"}, c.Description())

	stream, err := c.NewStream()
	require.NoError(t, err)
	event, err := c.NewEvent()
	require.NoError(t, err)
	bounce := mapped(t, 8192)
	copy(bounce, "0123456789")
	source, err := c.Register(bounce)
	require.NoError(t, err)
	block, descriptors, err := c.HostAlloc(2 * DescriptorSize)
	require.NoError(t, err)
	require.Len(t, block, 2*DescriptorSize)
	require.NotEqual(t, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(block)))),
		uint64(descriptors), "the GPU has its own address")
	destination, size, err := c.AllocRing(4096)
	require.NoError(t, err)
	require.Equal(t, 1<<16, size, "this driver's mapping granularity")
	require.NoError(t, c.CopyIn(stream, destination, []byte("..........")))

	list := unsafe.Slice((*Descriptor)(unsafe.Pointer(unsafe.SliceData(block))), 2)
	list[0] = Descriptor{Source: 7, Length: 3, Destination: 0}
	list[1] = Descriptor{Source: 0, Length: 4, Destination: 5}
	require.NoError(t, c.Launch(stream, descriptors, len(list), source, destination))
	require.NoError(t, c.Record(event, stream))
	ready, err := c.Query(event)
	require.NoError(t, err)
	require.False(t, ready)
	ready, err = c.Query(event)
	require.NoError(t, err)
	require.True(t, ready)
	out := make([]byte, 10)
	require.NoError(t, c.CopyOut(stream, out, destination))
	require.NoError(t, c.Synchronize(stream))
	require.Equal(t, "789..0123.", string(out))
	require.NoError(t, c.CopyOut(stream, out, destination+Address(size)-2))
	require.NoError(t, c.CopyOut(stream, out[:8], destination+Address(size)))
	require.Equal(t, "789..012", string(out[:8]), "the second mapping")

	device, err := c.Alloc(8192)
	require.NoError(t, err)
	dmabuf, err := c.Export(device, 4096)
	require.NoError(t, err)
	_, err = unix.Pwrite(dmabuf, []byte("from a NIC"), 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(dmabuf))
	require.NoError(t, c.CopyOut(stream, out, device))
	require.Equal(t, "from a NIC", string(out))
	_, err = c.Export(device+1, 4096)
	require.Error(t, err, "not at a page")
	require.NoError(t, c.Free(device))

	require.NoError(t, c.FreeRing(destination, size))
	require.NoError(t, c.HostFree(block))
	require.NoError(t, c.Unregister(bounce))
	require.NoError(t, c.DestroyEvent(event))
	require.NoError(t, c.DestroyStream(stream))
	require.NoError(t, c.Close())
	require.Zero(t, live(t, c), "objects that were not freed")
}

// TestDriverErrors makes each call of Open fail, and some others.
func TestDriverErrors(t *testing.T) {
	library := testDriver(t)
	_, err := Open(library, 2)
	require.EqualError(t, err, "there is no GPU 2: the driver has 2")

	c, err := Open(library, 0)
	require.NoError(t, err)
	stream, err := c.NewStream()
	require.NoError(t, err)
	event, err := c.NewEvent()
	require.NoError(t, err)
	before := live(t, c)
	ring := func() error { _, _, err := c.AllocRing(1); return err }
	for call, do := range map[string]func() error{
		"cuMemGetAllocationGranularity": ring, "cuMemAddressReserve": ring, "cuMemCreate": ring,
		"cuMemMap": ring, "cuMemSetAccess": ring,
		"cuMemAlloc":               func() error { _, err := c.Alloc(1); return err },
		"cuInit":                   func() error { _, err := Open(library, 0); return err },
		"cuDevicePrimaryCtxRetain": func() error { _, err := Open(library, 0); return err },
		"cuModuleLoadData":         func() error { _, err := Open(library, 0); return err },
		"cuModuleGetFunction":      func() error { _, err := Open(library, 0); return err },
		"cuStreamCreate":           func() error { _, err := c.NewStream(); return err },
		"cuEventQuery":             func() error { _, err := c.Query(event); return err },
		"cuStreamSynchronize":      func() error { return c.Synchronize(stream) },
		"cuLaunchKernel":           func() error { return c.Launch(stream, 0, 1, 0, 0) },
	} {
		t.Setenv("FAIL", call)
		var failed *Error
		require.ErrorAs(t, do(), &failed, call)
		require.Equal(t, Error{Call: call, Code: 2, Name: "CUDA_ERROR_OUT_OF_MEMORY",
			Text: "out of memory"}, *failed)
		require.Equal(t, before, live(t, c), "%s left something behind", call)
	}
	require.NoError(t, os.Unsetenv("FAIL"))
	err = c.Launch(0, 0, 1, 0, 0) // the driver checks the stream
	require.EqualError(t, err, "cuLaunchKernel: unknown error (1): the driver has no description")
	require.NoError(t, c.DestroyEvent(event))
	require.NoError(t, c.DestroyStream(stream))
	require.NoError(t, c.Close())
	require.Zero(t, live(t, c))
}

// TestRealDriver: with a driver and a GPU, the kernel compiles there.
func TestRealDriver(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := Open(Library, 0)
	if err != nil {
		t.Skip(err)
	}
	require.NotEmpty(t, strings.TrimSpace(c.Description().Device))
	require.NoError(t, c.Close())
}
