package gpu_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// TestDeviceFailures makes each call of the device fail once. A failed Open frees everything. A
// later failure reaches the data path, and Close returns.
func TestDeviceFailures(t *testing.T) {
	for _, call := range []string{"Open", "NewStream", "NewEvent", "HostAlloc"} {
		fake := &gputest.Device{}
		fake.Fail(call)
		_, err := gpu.Open(gpu.Config{Mode: gpu.Kernel, Descriptors: 1,
			Open: func() (gpu.Device, error) { return fake.Open() }})
		require.ErrorContains(t, err, "fails deliberately: "+call)
		require.Empty(t, fake.Mistakes(), call)
	}
	for _, call := range []string{"Register", "AllocRing", "CopyOut", "Synchronize", "Launch",
		"Record", "Query"} {
		fake := &gputest.Device{}
		run(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 1}, 64, fake,
			func() (gpu.Device, error) { return fake.Open() }, func(b *bench) {
				fake.Fail(call)
				var err error
				switch call {
				case "Register":
					err = b.Register(make([]byte, 64))
				case "AllocRing":
					_, _, err = b.AllocateRing(1)
				case "CopyOut", "Synchronize":
					err = b.Read(make([]byte, 1), b.to)
				default:
					b.Block(0)[0] = cuda.Descriptor{Length: 1}
					require.NoError(t, b.submit(0, 1, 0))
					require.Eventually(t, func() bool { _, err = b.Done(0); return err != nil },
						time.Minute, time.Millisecond)
					require.ErrorContains(t, b.submit(1, 0, 0), "fails deliberately: "+call)
				}
				require.ErrorContains(t, err, "fails deliberately: "+call)
				fake.Fail("")
			})
	}
}

// TestKernelFailure: after a wrong address, the GPU fails every call; the data path returns that
// error, and Close returns.
func TestKernelFailure(t *testing.T) {
	fake := &gputest.Device{}
	u, err := gpu.Open(gpu.Config{Mode: gpu.Kernel, Descriptors: 1,
		Open: func() (gpu.Device, error) { return fake.Open() }})
	require.NoError(t, err)
	require.NoError(t, u.Register(make([]byte, 64)))
	u.Block(0)[0] = cuda.Descriptor{Length: 1}
	require.NoError(t, u.Submit(0, 1, 4711, 1)) // an address that is not allocated
	require.Eventually(t, func() bool { _, err = u.Done(0); return err != nil }, time.Minute,
		time.Millisecond)
	require.ErrorContains(t, err, "CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	require.ErrorContains(t, u.Close(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)")
	require.NoError(t, u.Close(), "a second Close")
}
