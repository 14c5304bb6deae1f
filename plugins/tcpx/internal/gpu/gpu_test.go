package gpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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
	fake   *gputest.Device // nil where it is a real GPU
	bounce []byte
	to     cuda.Address // size bytes of the GPU's
	size   int
}

func (b *bench) submit(request, count, offset int) error {
	return b.Submit(request, count, b.to+cuda.Address(offset), b.size-offset)
}

// on runs a test on the GPU of tests, and on a real one where there is one.
func on(t *testing.T, config gpu.Config, size int, test func(*bench)) {
	t.Run("fake", func(t *testing.T) {
		fake := &gputest.Device{}
		run(t, config, size, fake, func() (gpu.Device, error) { return fake.Open() }, test)
	})
	t.Run("real", func(t *testing.T) {
		run(t, config, size, nil, func() (gpu.Device, error) { return cuda.Open(cuda.Library, 0) }, test)
	})
}

func run(t *testing.T, config gpu.Config, size int, fake *gputest.Device, open func() (gpu.Device, error), test func(*bench)) {
	memory, err := unix.Mmap(-1, 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
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

// wait returns when the request is done; the bound is for a machine that hangs.
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

// unpack has the descriptors unpacked by one request and waits.
func (b *bench) unpack(request int, list ...cuda.Descriptor) {
	b.t.Helper()
	copy(b.Block(request), list)
	require.NoError(b.t, b.submit(request, len(list), 0))
	b.wait(request)
}

func fill(memory []byte, seed uint64) {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = random.Read(memory) // it returns no error
}

// alignments makes a descriptor for each alignment of source and destination and each
// of the lengths, sources not in order, and returns what the destination then holds.
func (b *bench) alignments(lengths []uint32, offsets []int, size int, poison byte) (list []cuda.Descriptor, want []byte) {
	want = bytes.Repeat([]byte{poison}, size)
	place := uint64(0)
	for _, length := range lengths {
		for _, from := range offsets {
			for _, to := range offsets {
				room := (uint64(len(b.bounce)) - uint64(length) - 16) &^ 15
				source := uint32((uint64(len(list))*2654435761%room)&^15) + uint32(from)
				d := cuda.Descriptor{Source: source, Length: length, Destination: place + uint64(to)}
				copy(want[d.Destination:], b.bounce[source:source+length])
				list = append(list, d)
				place += (uint64(length)+31)&^15 + 16
			}
		}
	}
	require.LessOrEqual(b.t, int(place), size, "the destination of this test")
	return list, want
}

// TestUnpackAlignmentsAndLengths: all 256 alignments and the lengths at the edges; no
// byte beside a piece is touched.
func TestUnpackAlignmentsAndLengths(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for _, mode := range []gpu.Mode{gpu.Kernel, gpu.CopyEngine} {
		for name, pieces := range map[string]struct {
			lengths []uint32
			offsets []int
			size    int
		}{
			"short": {[]uint32{0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 511, 512, 513}, all, 1 << 20},
			"page":  {[]uint32{4095, 4096, 4097}, all, 4 << 20},
			"chunk": {[]uint32{512<<10 - 1, 512 << 10, 512<<10 + 1}, []int{0, 8}, 7 << 20},
			"odd":   {[]uint32{512<<10 - 1}, []int{5}, 1 << 20},
		} {
			t.Run(fmt.Sprintf("%s/%s", mode, name), func(t *testing.T) {
				on(t, gpu.Config{Mode: mode, Descriptors: 256 * len(pieces.lengths)}, pieces.size, func(b *bench) {
					fill(b.bounce, 1)
					list, want := b.alignments(pieces.lengths, pieces.offsets, pieces.size, 0xA5)
					require.NoError(t, b.Write(b.to, bytes.Repeat([]byte{0xA5}, pieces.size)))
					b.unpack(3, list...)
					got := make([]byte, pieces.size)
					require.NoError(t, b.Read(got, b.to))
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("byte %d is %#x, and %#x belongs there", i, got[i], want[i])
						}
					}
				})
			})
		}
	}
}

// TestManyChunks sends chunks of random pieces through all requests, several at a time,
// and has each request's bounce memory written again as soon as it is done.
func TestManyChunks(t *testing.T) {
	const chunk, chunks = 16 << 10, 200
	for _, mode := range []gpu.Mode{gpu.Kernel, gpu.CopyEngine} {
		t.Run(string(mode), func(t *testing.T) {
			on(t, gpu.Config{Mode: mode, Descriptors: 64}, gpu.Requests*chunk, func(b *bench) {
				random := rand.New(rand.NewPCG(7, 7))
				want := make([]byte, gpu.Requests*chunk)
				got := make([]byte, chunk)
				for i := range chunks {
					request := i % gpu.Requests
					if i >= gpu.Requests { // the oldest, as a window has it
						b.wait(request)
						require.NoError(t, b.Read(got, b.to+cuda.Address(request*chunk)))
						require.True(t, bytes.Equal(want[request*chunk:(request+1)*chunk], got), "chunk %d", i-gpu.Requests)
					}
					pool := b.bounce[request*2*chunk : (request+1)*2*chunk]
					fill(pool, uint64(i))
					n, at := 0, 0
					for at < chunk && n < 64 {
						length := min(random.IntN(2*chunk/64)+1, chunk-at)
						source := random.IntN(len(pool) - length)
						b.Block(request)[n] = cuda.Descriptor{Source: uint32(request*2*chunk + source), Length: uint32(length), Destination: uint64(at)}
						copy(want[request*chunk+at:], pool[source:source+length])
						n, at = n+1, at+length
					}
					require.NoError(t, b.submit(request, n, request*chunk))
				}
				for request := range gpu.Requests {
					b.wait(request)
				}
				all := make([]byte, len(want))
				require.NoError(t, b.Read(all, b.to))
				require.True(t, bytes.Equal(want, all))

				counts := b.Counts()
				require.Equal(t, uint64(chunks), counts.Chunks)
				require.Equal(t, uint64(2), counts.Streams)
				require.Equal(t, uint64(gpu.Requests), counts.Events)
				require.NoError(t, b.Check())
				if mode == gpu.Kernel {
					require.Equal(t, uint64(chunks), counts.Launches, "one launch a chunk")
					require.Zero(t, counts.Copies)
				} else {
					require.Equal(t, counts.Descriptors, counts.Copies, "one copy a piece")
					require.Zero(t, counts.Launches)
				}
				if b.fake != nil {
					require.Equal(t, 2, b.fake.Made("stream"))
					require.Equal(t, gpu.Requests, b.fake.Made("event"))
					require.Equal(t, gpu.Requests, b.fake.Made("host"))
					require.Equal(t, 1, b.fake.Made("memory"))
				}
			})
		})
	}
}

// TestOrderOfCalls: launch, record, query until ready, and only then is it done.
func TestOrderOfCalls(t *testing.T) {
	fake := &gputest.Device{}
	run(t, gpu.Config{Mode: gpu.Kernel, Descriptors: 1}, 4096, fake, func() (gpu.Device, error) { return fake.Open() }, func(b *bench) {
		fake.Hold(true)
		copy(b.bounce, "payload")
		b.Block(0)[0] = cuda.Descriptor{Length: 7}
		require.NoError(t, b.submit(0, 1, 0))
		require.Eventually(t, func() bool { return slices.Contains(fake.Calls(), "not ready") }, time.Minute, time.Millisecond)
		ready, err := b.Done(0)
		require.NoError(t, err)
		require.False(t, ready, "done before the event is")
		require.ErrorIs(t, b.submit(0, 1, 0), gpu.ErrBusy)
		require.Equal(t, []string{"launch", "record", "not ready"}, fake.Calls())
		fake.Hold(false)
		b.wait(0)
		require.Equal(t, []string{"launch", "record", "not ready", "ready"}, fake.Calls())
	})
}

// TestTheSeventeenthIsRefused: with all requests under way there is no other, and one is
// in use until its user knows that it is done.
func TestTheSeventeenthIsRefused(t *testing.T) {
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
		require.ErrorIs(t, b.submit(1, 1, 0), gpu.ErrBusy, "nobody has asked whether it is done")
		require.NoError(t, b.submit(0, 1, 0))
	})
}

// TestFreshStreamsAreCaught: the first error of the document.
func TestFreshStreamsAreCaught(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.FreshStreams, Descriptors: 1}, 4096, func(b *bench) {
		require.NoError(t, b.Check())
		copy(b.bounce, "payload")
		for i := range 3 {
			b.unpack(i, cuda.Descriptor{Length: 7})
		}
		got := make([]byte, 7)
		require.NoError(t, b.Read(got, b.to))
		require.Equal(t, "payload", string(got), "it is slow, and right")
		require.ErrorIs(t, b.Check(), gpu.ErrResources)
		require.ErrorContains(t, b.Check(), "5 streams and 19 events for 3 chunks")
	})
}

// TestEarlyConsumeIsCaught: the third. What is written to the bounce memory after Done
// arrives in its place, and copying back shows it.
func TestEarlyConsumeIsCaught(t *testing.T) {
	const size = 4 << 20
	on(t, gpu.Config{Mode: gpu.Kernel, Fault: gpu.EarlyConsume, Descriptors: 1}, size, func(b *bench) {
		rounds := 1
		if b.fake != nil {
			b.fake.Hold(true)
		} else {
			rounds = 1000 // a real GPU may win the race now and then
		}
		want, got := make([]byte, size), make([]byte, size)
		for i := range rounds {
			fill(b.bounce[:size], uint64(i))
			copy(want, b.bounce)
			request := i % gpu.Requests
			b.Block(request)[0] = cuda.Descriptor{Length: size}
			require.NoError(t, b.submit(request, 1, 0))
			b.wait(request)
			clear(b.bounce[:size]) // as if another chunk had arrived
			require.NoError(t, b.Read(got, b.to))
			if !bytes.Equal(want, got) {
				return
			}
		}
		t.Fatal("the fault did no harm")
	})
}

// TestRingsWrapAround: what is unpacked over the end of a ring is at its beginning, and
// what is read over the end is what is there.
func TestRingsWrapAround(t *testing.T) {
	for _, mode := range []gpu.Mode{gpu.Kernel, gpu.CopyEngine} {
		on(t, gpu.Config{Mode: mode, Descriptors: 1}, 4096, func(b *bench) {
			ring, size, err := b.AllocateRing(4096)
			require.NoError(t, err)
			copy(b.bounce, "wraps around")
			b.Block(0)[0] = cuda.Descriptor{Length: 12}
			require.NoError(t, b.Submit(0, 1, ring+cuda.Address(size)-5, 12))
			b.wait(0)
			got := make([]byte, 12)
			require.NoError(t, b.Read(got, ring+cuda.Address(size)-5))
			require.Equal(t, "wraps around", string(got))
			require.NoError(t, b.Read(got[:7], ring))
			require.Equal(t, " around", string(got[:7]))
			require.NoError(t, b.Free(ring))
		})
	}
}

func TestNoneMovesNothing(t *testing.T) {
	on(t, gpu.Config{Mode: gpu.None, Descriptors: 1}, 4096, func(b *bench) {
		require.NoError(t, b.Write(b.to, []byte("before")))
		copy(b.bounce, "after.")
		b.Block(0)[0] = cuda.Descriptor{Length: 6}
		allocations := testing.AllocsPerRun(100, func() {
			if err := b.submit(0, 1, 0); err != nil {
				t.Error(err)
			}
			if ready, err := b.Done(0); !ready || err != nil {
				t.Error("not done at once:", err)
			}
		})
		require.Zero(t, allocations)
		got := make([]byte, 6)
		require.NoError(t, b.Read(got, b.to))
		require.Equal(t, "before", string(got))
		require.Zero(t, b.Counts().Launches+b.Counts().Copies)
	})
}

// quiet is a device that does nothing and allocates nothing.
type quiet struct{ gpu.Device }

func (quiet) Launch(cuda.Stream, cuda.Address, int, cuda.Address, cuda.Address) error { return nil }
func (quiet) Record(cuda.Event, cuda.Stream) error                                    { return nil }
func (quiet) Query(cuda.Event) (bool, error)                                          { return true, nil }

// TestDataPathDoesNotAllocate, nor does the launcher.
func TestDataPathDoesNotAllocate(t *testing.T) {
	fake := &gputest.Device{}
	u, err := gpu.Open(gpu.Config{Mode: gpu.Kernel, Descriptors: 1, Open: func() (gpu.Device, error) {
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
	// Others of the process, such as the runtime's own goroutines, may allocate now and
	// then; what the data path allocates it does each time.
	require.Less(t, testing.AllocsPerRun(1000, round), 1.0)
}

// TestDescriptorsAreChecked: what a peer's numbers lead to never leaves the memory.
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
		require.ErrorIs(t, b.submit(0, 3, 0), gpu.ErrDescriptor, "more than the block has")
	})
}
