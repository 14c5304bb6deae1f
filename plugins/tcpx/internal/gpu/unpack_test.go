package gpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
)

// alignments makes a descriptor for each alignment of source and destination and each length,
// with sources out of order. It returns the expected destination.
func (b *bench) alignments(lengths []uint32, offsets []int, size int,
	poison byte) (list []cuda.Descriptor, want []byte) {
	want = bytes.Repeat([]byte{poison}, size)
	place := uint64(0)
	for _, length := range lengths {
		for _, from := range offsets {
			for _, to := range offsets {
				room := (uint64(len(b.bounce)) - uint64(length) - 16) &^ 15
				source := uint32((uint64(len(list))*2654435761%room)&^15) + uint32(from)
				d := cuda.Descriptor{Source: source, Length: length, Destination: place +
					uint64(to)}
				copy(want[d.Destination:], b.bounce[source:source+length])
				list = append(list, d)
				place += (uint64(length)+31)&^15 + 16
			}
		}
	}
	require.LessOrEqual(b.t, int(place), size, "the destination of this test")
	return list, want
}

// TestUnpackAlignmentsAndLengths: all 256 alignments with lengths around the load widths. No byte
// outside a piece is written.
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
			if fabrictest.Race && name != "short" {
				continue // the same calls with an interpreter that is ten times slower
			}
			t.Run(fmt.Sprintf("%s/%s", mode, name), func(t *testing.T) {
				on(t, gpu.Config{Mode: mode, Descriptors: 256 * len(pieces.lengths)}, pieces.size,
					func(b *bench) {
						fill(b.bounce, 1)
						list, want := b.alignments(pieces.lengths, pieces.offsets,
							pieces.size, 0xA5)
						require.NoError(t, b.Write(b.to, bytes.Repeat([]byte{0xA5}, pieces.size)))
						b.unpack(3, list...)
						got := make([]byte, pieces.size)
						require.NoError(t, b.Read(got, b.to))
						for i := range got {
							if got[i] != want[i] {
								t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
							}
						}
					})
			})
		}
	}
}

// TestManyChunks unpacks chunks of random pieces with all requests, several at a time, and
// overwrites the bounce memory of each request as soon as it is done.
func TestManyChunks(t *testing.T) {
	const chunk, chunks = 16 << 10, 100
	for _, mode := range []gpu.Mode{gpu.Kernel, gpu.CopyEngine} {
		t.Run(string(mode), func(t *testing.T) {
			on(t, gpu.Config{Mode: mode, Descriptors: 64}, gpu.Requests*chunk, func(b *bench) {
				random := rand.New(rand.NewPCG(7, 7))
				want := make([]byte, gpu.Requests*chunk)
				got := make([]byte, chunk)
				for i := range chunks {
					request := i % gpu.Requests
					if i >= gpu.Requests { // wait for the oldest
						b.wait(request)
						require.NoError(t, b.Read(got, b.to+cuda.Address(request*chunk)))
						require.True(t, bytes.Equal(want[request*chunk:(request+1)*chunk], got),
							"chunk %d", i-gpu.Requests)
					}
					pool := b.bounce[request*2*chunk : (request+1)*2*chunk]
					fill(pool, uint64(i))
					n, at := 0, 0
					for at < chunk && n < 64 {
						length := min(random.IntN(2*chunk/64)+1, chunk-at)
						source := random.IntN(len(pool) - length)
						b.Block(request)[n] = cuda.Descriptor{
							Source: uint32(request*2*chunk + source), Length: uint32(length),
							Destination: uint64(at)}
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
					require.Equal(t, uint64(chunks), counts.Launches, "one launch per chunk")
					require.Zero(t, counts.Copies)
				} else {
					require.Equal(t, counts.Descriptors, counts.Copies, "one copy per piece")
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

// TestRingsWrapAround: a write past the end of a ring continues at its beginning, and a read past
// the end returns it.
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
