package gpu_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// TestOrderOfCalls: a request is done after launch, record and a query that is ready.
func TestOrderOfCalls(t *testing.T) {
	fake := &gputest.Device{}
	run(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 1}, 4096, fake,
		func() (gpu.Device, error) { return fake.Open() }, func(b *bench) {
			fake.Hold(true)
			copy(b.bounce, "payload")
			b.Block(0)[0] = cuda.Descriptor{Length: 7}
			require.NoError(t, b.submit(0, 1, 0))
			require.Eventually(t, func() bool { return slices.Contains(fake.Calls(), "not ready") },
				time.Minute, time.Millisecond)
			ready, err := b.Done(0)
			require.NoError(t, err)
			require.False(t, ready, "done before its event")
			require.ErrorIs(t, b.submit(0, 1, 0), gpu.ErrBusy)
			require.Equal(t, []string{"launch", "record", "not ready"}, fake.Calls())
			fake.Hold(false)
			b.wait(0)
			require.Equal(t, []string{"launch", "record", "not ready", "ready"}, fake.Calls())
		})
}

// TestRequestsInUseAreRefused: a request is in use until Done returns true.
func TestRequestsInUseAreRefused(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 1}, 4096, func(b *bench) {
		if b.fake != nil {
			b.fake.Hold(true)
		}
		for i := range gpu.Requests {
			b.Block(i)[0] = cuda.Descriptor{Length: 1}
			require.NoError(t, b.submit(i, 1, 0))
		}
		for i := range gpu.Requests {
			require.ErrorIs(t, b.submit(i, 1, 0), gpu.ErrBusy)
		}
		if b.fake != nil {
			b.fake.Hold(false)
		}
		b.wait(0)
		require.ErrorIs(t, b.submit(1, 1, 0), gpu.ErrBusy, "Done was not called")
		require.NoError(t, b.submit(0, 1, 0))
	})
}

// quiet is a device that does nothing and allocates nothing.
type quiet struct{ gpu.Device }

func (quiet) Launch(cuda.Stream, cuda.Address, int, cuda.Address, cuda.Address) error { return nil }
func (quiet) Record(cuda.Event, cuda.Stream) error                                    { return nil }
func (quiet) Query(cuda.Event) (bool, error) {
	return true, nil
}

// TestDataPathDoesNotAllocate: neither the data path nor the launcher allocates.
func TestDataPathDoesNotAllocate(t *testing.T) {
	fake := &gputest.Device{}
	u, err := gpu.Open(gpu.Config{Mode: gpu.Kernel, Descriptors: 1,
		Open: func() (gpu.Device, error) {
			d, err := fake.Open()
			return quiet{d}, err
		}})
	require.NoError(t, err)
	defer func() { require.NoError(t, u.Close()) }()
	require.NoError(t, u.Register(make([]byte, 64)))
	u.Block(0)[0] = cuda.Descriptor{Length: 1}
	round := func() {
		if err := u.Submit(0, 1, 0, 1); err != nil {
			t.Error(err)
		}
		for ready := false; !ready; runtime.Gosched() {
			ready, _ = u.Done(0)
		}
	}
	// Other goroutines, such as the runtime's, may allocate occasionally; the data path
	// would allocate every time.
	require.Less(t, testing.AllocsPerRun(1000, round), 1.0)
}

// TestDescriptorsAreChecked: descriptors from a peer's numbers stay within the memory.
func TestDescriptorsAreChecked(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 2}, 4096, func(b *bench) {
		bounce := uint32(len(b.bounce))
		for _, c := range []struct {
			d    cuda.Descriptor
			at   int
			good bool
		}{
			{cuda.Descriptor{Length: 4096}, 0, true},
			{cuda.Descriptor{Source: bounce - 1, Length: 1, Destination: 4095}, 0, true},
			{cuda.Descriptor{Source: bounce, Length: 0, Destination: 4096}, 0, true},
			{cuda.Descriptor{Length: 4097}, 0, false},
			{cuda.Descriptor{Length: 1}, 4096, false},
			{cuda.Descriptor{Length: 1, Destination: 4096}, 0, false},
			{cuda.Descriptor{Length: 1, Destination: 4000}, 96, false},
			{cuda.Descriptor{Length: 1, Destination: 1<<64 - 1}, 1, false},
			{cuda.Descriptor{Source: bounce, Length: 1}, 0, false},
			{cuda.Descriptor{Source: 1<<32 - 1, Length: 2}, 0, false},
		} {
			b.Block(0)[0] = c.d
			err := b.submit(0, 1, c.at)
			if !c.good {
				require.ErrorIs(t, err, gpu.ErrDescriptor, "%+v at %d", c.d, c.at)
				continue
			}
			require.NoError(t, err)
			b.wait(0)
		}
		require.ErrorIs(t, b.submit(0, 3, 0), gpu.ErrDescriptor, "more than the block holds")
	})
}
