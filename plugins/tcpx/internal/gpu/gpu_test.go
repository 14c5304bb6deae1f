package gpu_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an unpacker under test.
type bench struct {
	*gpu.Unpacker
	t      *testing.T
	fake   *gputest.Device // nil with a real GPU
	bounce []byte
	to     cuda.Address // size bytes of GPU memory
	size   int
}

func (b *bench) submit(request, count, offset int) error {
	return b.Submit(request, count, b.to+cuda.Address(offset), b.size-offset)
}

// on runs a test on the fake GPU, and on a real one if there is one.
func on(t *testing.T, config gpu.Config, size int, test func(*bench)) {
	t.Run("fake", func(t *testing.T) {
		fake := &gputest.Device{}
		run(t, config, size, fake, func() (gpu.Device, error) { return fake.Open() }, test)
	})
	t.Run("real", func(t *testing.T) {
		run(t, config, size, nil, func() (gpu.Device, error) { return cuda.Open(cuda.Library, 0) },
			test)
	})
}

func run(t *testing.T, config gpu.Config, size int, fake *gputest.Device,
	open func() (gpu.Device, error), test func(*bench)) {
	memory, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(memory)) }()
	config.Open = open
	u, err := gpu.Open(config)
	if err != nil && fake == nil {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() {
		require.NoError(t, u.Close())
		if fake != nil {
			require.Empty(t, fake.Mistakes())
		}
	}()
	require.NoError(t, u.Register(memory))
	to, whole, err := u.AllocateRing(size)
	require.NoError(t, err)
	require.GreaterOrEqual(t, whole, size)
	test(&bench{Unpacker: u, t: t, fake: fake, bounce: memory, to: to, size: size})
}

// wait returns when the request is done, or fails after a time limit.
func (b *bench) wait(request int) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		ready, err := b.Done(request)
		require.NoError(b.t, err)
		if ready {
			return
		}
		require.True(b.t, time.Now().Before(deadline), "request %d is not done", request)
	}
}

// unpack unpacks the descriptors in one request and waits.
func (b *bench) unpack(request int, list ...cuda.Descriptor) {
	b.t.Helper()
	copy(b.Block(request), list)
	require.NoError(b.t, b.submit(request, len(list), 0))
	b.wait(request)
}

func fill(memory []byte, seed uint64) {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = random.Read(memory) // never returns an error
}
