package tcpx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// fakeGPUs makes openDevice open fake GPUs, none of which may report a mistake at the end.
func fakeGPUs(t *testing.T) {
	t.Helper()
	var mu sync.Mutex
	var all []*gputest.Device
	replaceDevice(t, func(int) (gpu.Device, error) {
		d := &gputest.Device{}
		mu.Lock()
		all = append(all, d)
		mu.Unlock()
		return d.Open()
	})
	t.Cleanup(func() {
		for _, d := range all {
			require.Empty(t, d.Mistakes())
		}
	})
}

func replaceDevice(t *testing.T, open func(int) (gpu.Device, error)) {
	before := openDevice
	openDevice = open
	t.Cleanup(func() { openDevice = before })
}

// needGPU skips the test if there is no GPU, with the loader's or the driver's message.
func needGPU(t *testing.T) {
	t.Helper()
	s, err := resolveOptions(options(t, map[string]string{"mode": "gpu"}))
	require.NoError(t, err)
	if err := gpuAvailable(s); err != nil {
		t.Skip(err)
	}
}

func options(t *testing.T, raw map[string]string) transport.Values {
	t.Helper()
	v, err := transport.ParseOptions(schema, raw)
	require.NoError(t, err)
	return v
}

// TestConformanceOnGPU runs the suite, which copies payloads back, on fake GPUs and on a real
// one if there is one.
func TestConformanceOnGPU(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T){"fake": fakeGPUs, "real": needGPU} {
		t.Run(name, func(t *testing.T) {
			prepare(t)
			suite := transporttest.Suite{
				Driver: Driver{}, Timeout: time.Minute, MaxPayload: 5000, Kill: kill,
				Options: map[string]string{"mode": "gpu", "chunk": "16KiB"},
				Skip:    map[string]string{},
			}
			if name == "fake" {
				for _, clause := range []string{"alloc/small", "alloc/large"} {
					suite.Skip[clause] = "the fake GPU allocates; internal/gpu tests the data path"
				}
			}
			transporttest.Run(t, suite)
		})
	}
}

// TestPayloadsStayOnTheGPU: all but their first bytes.
func TestPayloadsStayOnTheGPU(t *testing.T) {
	fakeGPUs(t)
	a, b := pairOf(t, map[string]string{"mode": "gpu"}, nil)
	require.True(t, a.endpoint.Properties().Capabilities.DeviceMemory)
	require.Equal(t, map[string]string{"cuda": "0.0"}, a.endpoint.Properties().Libraries)
	require.Equal(t, "GPU of tests", a.endpoint.Properties().Notes["gpu"])
	require.Equal(t, "gpu", a.endpoint.Properties().Provider)
	a.post(t, []byte("payload"))
	e := b.await(t, a)
	require.Equal(t, "payl", string(e.Payload))
	require.Equal(t, 7, e.Size)

	values := map[string]uint64{}
	for _, s := range b.worker.ReadStats(nil) {
		values[s.Name] = s.Value
	}
	require.Equal(t, []uint64{1, 7, 1, 2, 16}, []uint64{values["gpu_launches"], values["gpu_bytes"], values["gpu_chunks"], values["gpu_streams_made"], values["gpu_events_made"]})
}

// side is a transport with one worker and one peer.
type side struct {
	endpoint *endpoint
	worker   *worker
	events   []transport.Event
}

// testHead is how many bytes of each payload the host sees.
const testHead = 4

// pairOf makes two connected sides; the first has more options. then is called after each
// side's worker is made.
func pairOf(t *testing.T, both, first map[string]string, then ...func()) (a, b *side) {
	t.Helper()
	var sides [2]*side
	for i := range sides {
		raw := map[string]string{}
		for _, from := range []map[string]string{both, map[bool]map[string]string{true: first}[i == 0]} {
			for k, v := range from {
				raw[k] = v
			}
		}
		r, err := open(transport.Config{Rank: i, Workers: 1, Peers: 1, InFlight: 64, MaxPayload: 64 << 10, HostPrefix: testHead, Options: options(t, raw)})
		require.NoError(t, err)
		w, err := r.NewWorker(0)
		require.NoError(t, err)
		for _, f := range then {
			f()
		}
		sides[i] = &side{endpoint: r, worker: w.(*worker), events: make([]transport.Event, 16)}
	}
	for i := range sides {
		require.NoError(t, sides[i].worker.Connect(t.Context(), 0, sides[1-i].worker.Address()))
	}
	t.Cleanup(func() {
		for _, s := range sides {
			_ = s.endpoint.Close() // tests that check the error close it themselves
		}
	})
	return sides[0], sides[1]
}

func (s *side) post(t *testing.T, payload []byte) {
	t.Helper()
	n, err := s.worker.Post([]transport.Op{{Kind: transport.OpCall, Token: 1, Payload: payload}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, s.worker.Flush())
}

// poll returns the first event or error of this side, while the other side polls, too.
func (s *side) poll(t *testing.T, other *side) (transport.Event, error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if n, err := s.worker.Poll(s.events); n > 0 || err != nil {
			return s.events[0], err
		}
		_, _ = other.worker.Poll(other.events)
	}
	require.Fail(t, "nothing comes")
	return transport.Event{}, nil
}

func (s *side) await(t *testing.T, other *side) transport.Event {
	t.Helper()
	e, err := s.poll(t, other)
	require.NoError(t, err)
	return e
}

// TestTheFourMistakes makes each mistake by its option, and each is caught.
func TestTheFourMistakes(t *testing.T) {
	fakeGPUs(t)
	t.Run(faultFreshStreams, func(t *testing.T) {
		a, b := pairOf(t, map[string]string{"mode": "gpu"}, map[string]string{"fault": faultFreshStreams})
		b.post(t, []byte("payload"))
		a.await(t, b)
		require.Equal(t, faultFreshStreams, a.endpoint.Properties().Notes["fault"], "a result shows it")
		require.ErrorIs(t, a.endpoint.Close(), gpu.ErrResources)
		require.NoError(t, b.endpoint.Close())
	})
	t.Run(faultNoWindow, func(t *testing.T) {
		a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"}, map[string]string{"fault": faultNoWindow})
		for range 16 { // the first of them connects
			a.post(t, make([]byte, 2*4096))
		}
		require.Equal(t, transport.EventPeerLost, a.await(t, b).Kind)
		require.ErrorIs(t, a.worker.peers.Get(0).conn.err, errNoFreeRequest)
	})
	t.Run(faultOneTag, func(t *testing.T) {
		a, b := pairOf(t, map[string]string{"mode": "gpu"}, map[string]string{"fault": faultOneTag})
		a.post(t, []byte("payload"))
		_, err := a.poll(t, b)
		require.ErrorIs(t, err, transport.ErrCorrupt)
		require.ErrorIs(t, a.worker.peers.Get(0).conn.err, errTagMismatch)
	})
	t.Run(faultEarlyConsume, func(t *testing.T) {
		var late *gputest.Device // the last that a opens is its worker's
		first := true
		replaceDevice(t, func(int) (gpu.Device, error) {
			d := &gputest.Device{}
			if first {
				late = d
			}
			return d.Open()
		})
		a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"}, map[string]string{"fault": faultEarlyConsume}, func() { first = false })
		late.Hold(true)
		payload := bytes.Repeat([]byte("right"), 100)
		b.post(t, payload)
		require.Equal(t, len(payload), a.await(t, b).Size, "reported before the GPU has it")
		clear(a.worker.memory.Memory()) // as the next requests will
		got := make([]byte, len(payload))
		require.NoError(t, a.worker.unpacker.Unpacker.(*bounce.GPU).Read(got, a.worker.peers.Get(0).in.destination))
		require.NotEqual(t, payload, got, "the fault does no harm")
	})
}

// TestUnavailableModes: without a GPU and a NIC, opening fails with one line that says why, and
// auto takes mode host and reports that.
func TestUnavailableModes(t *testing.T) {
	replaceDevice(t, func(int) (gpu.Device, error) {
		return nil, fmt.Errorf("%s: cannot open shared object file: No such file or directory", cuda.Library)
	})
	for mode, words := range map[string]string{
		"gpu":    "unavailable: mode gpu: libcuda.so.1: cannot open shared object file: No such file or directory; it needs NVIDIA's driver and a GPU",
		"devmem": "unavailable: mode devmem: ",
	} {
		_, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: 1, Options: options(t, map[string]string{"mode": mode})})
		require.ErrorIs(t, err, transport.ErrUnavailable)
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Driver{}.Open(t.Context(), transport.Config{Options: options(t, map[string]string{"mode": "auto", "unpack": unpackKernel})})
	require.ErrorContains(t, err, `option "mode": auto finds none`)
	require.ErrorContains(t, err, "libcuda.so.1: cannot open shared object file")

	r, err := Driver{}.Open(t.Context(), transport.Config{Options: options(t, map[string]string{"mode": "auto"})})
	require.NoError(t, err)
	require.Equal(t, "host", r.Properties().Provider)
	require.Contains(t, r.Properties().Notes["auto"], "host; unavailable: mode devmem: ")
	require.Contains(t, r.Properties().Notes["auto"], "libcuda.so.1: cannot open shared object file")
	require.NoError(t, r.Close())

	fakeGPUs(t)
	r, err = Driver{}.Open(t.Context(), transport.Config{Options: options(t, map[string]string{"mode": "auto"})})
	require.NoError(t, err)
	require.Equal(t, "gpu", r.Properties().Provider)
	require.NoError(t, r.Close())
}

// TestStreamOnGPU copies a transfer back and verifies it: the kernel and the copy engine bring
// every byte, none brings none.
func TestStreamOnGPU(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T){"fake": fakeGPUs, "real": needGPU} {
		for _, unpack := range []string{unpackKernel, unpackCopyEngine, unpackNone} {
			t.Run(name+"/"+unpack, func(t *testing.T) {
				prepare(t)
				const size = 1<<20 + 12345
				s, err := resolveOptions(options(t, map[string]string{"mode": "gpu", "unpack": unpack, "chunk": "64KiB", "sockets": "2"}))
				require.NoError(t, err)
				a, b, err := newBulkSides(s, 64*s.request)
				require.NoError(t, err)
				source := make([]byte, size)
				fill(source, 1)

				var stopped atomic.Bool
				sent := make(chan error, 1)
				go func() {
					rest := source
					sent <- a.send(&stopped, 0, func() (part []byte) {
						part, rest = rest[:min(s.request, len(rest))], rest[min(s.request, len(rest)):]
						return part
					})
				}()
				n, err := b.receive(&stopped, 0, func(number uint64) bounce.Buffer {
					return b.destination.Slice(int(number)%64*s.request, s.request)
				})
				require.NoError(t, err)
				require.NoError(t, <-sent)
				require.Equal(t, size, n)

				got := make([]byte, size)
				require.NoError(t, b.unpacker.Unpacker.(*bounce.GPU).Read(got, b.destination))
				require.Equal(t, unpack != unpackNone, bytes.Equal(source, got))
				counts := map[string]uint64{}
				for _, s := range b.unpacker.Unpacker.(*bounce.GPU).Counters(nil) {
					counts[s.Name] = s.Value
				}
				switch unpack {
				case unpackKernel:
					require.Equal(t, uint64(17), counts["gpu_launches"], "one for each request")
					require.Zero(t, counts["gpu_copies"])
				case unpackCopyEngine:
					require.Equal(t, counts["gpu_descriptors"], counts["gpu_copies"], "one for each fragment")
					require.GreaterOrEqual(t, counts["gpu_copies"], uint64(size/pageSize))
				default:
					require.Zero(t, counts["gpu_launches"]+counts["gpu_copies"])
				}
				require.NoError(t, a.close())
				require.NoError(t, b.close())
			})
		}
	}
}

// fill fills b with random bytes.
func fill(b []byte, seed uint64) {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = random.Read(b) // it returns no error
}
