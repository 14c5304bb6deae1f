package tcpx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/conn"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/gpu"
	"transportbench/plugins/tcpx/internal/gpu/gputest"
)

// fakeGPUs makes modes open fake GPUs, none of which may report a mistake at the end.
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
	before := bounce.Hooks.OpenGPU
	bounce.Hooks.OpenGPU = open
	t.Cleanup(func() { bounce.Hooks.OpenGPU = before })
}

// needGPU skips the test if there is no GPU, with the loader's or the driver's message.
func needGPU(t *testing.T) {
	t.Helper()
	s, err := resolveOptions(options(t, map[string]string{"mode": "gpu"}))
	require.NoError(t, err)
	if err := s.memory.Available(); err != nil {
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
	for name, prepare := range map[string]func(*testing.T){"fake": fakeGPUs, "real": needGPU,
		"fake/send": fakeGPUs, "real/send": needGPU} {
		t.Run(name, func(t *testing.T) {
			prepare(t)
			suite := transporttest.Suite{
				Driver: Driver{}, Timeout: time.Minute, MaxPayload: 5000, Kill: closeSockets,
				Options: map[string]string{"mode": "gpu", "chunk": "16KiB"},
				Skip:    map[string]string{},
			}
			name, fromDevice := strings.CutSuffix(name, "/send")
			if fromDevice {
				suite.Options["send-memory"] = "device"
				suite.Options["chunk"] = "4KiB" // several copies of each payload
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
	require.Equal(t, []uint64{1, 7, 1, 2, 16}, []uint64{values["gpu_launches"], values["gpu_bytes"],
		values["gpu_chunks"], values["gpu_streams_made"], values["gpu_events_made"]})
}

// side is a transport with one worker and one peer.
type side struct {
	endpoint *endpoint
	worker   *worker
	events   []transport.Event
}

// destination returns the first size bytes of the destination ring.
func (s *side) destination(t *testing.T, size int) bounce.Buffer {
	t.Helper()
	kept, ok := s.worker.peers.Get(0).conn.In.Kept(0, size)
	require.True(t, ok)
	return kept
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
		for _, from := range []map[string]string{both,
			map[bool]map[string]string{true: first}[i == 0]} {
			for k, v := range from {
				raw[k] = v
			}
		}
		r, err := open(transport.Config{Rank: i, Workers: 1, Peers: 1, InFlight: 64,
			MaxPayload: 64 << 10, HostPrefix: testHead, Options: options(t, raw)})
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
		a, b := pairOf(t, map[string]string{"mode": "gpu"},
			map[string]string{"fault": faultFreshStreams})
		b.post(t, []byte("payload"))
		a.await(t, b)
		require.Equal(t, faultFreshStreams, a.endpoint.Properties().Notes["fault"],
			"a result shows it")
		require.ErrorIs(t, a.endpoint.Close(), gpu.ErrResources)
		require.NoError(t, b.endpoint.Close())
	})
	t.Run(faultNoWindow, func(t *testing.T) {
		a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"},
			map[string]string{"fault": faultNoWindow})
		for range 16 { // the first of them connects
			a.post(t, make([]byte, 2*4096))
		}
		require.Equal(t, transport.EventPeerLost, a.await(t, b).Kind)
		require.ErrorIs(t, a.worker.peers.Get(0).conn.Err, conn.ErrNoFreeRequest)
	})
	t.Run(faultOneTag, func(t *testing.T) {
		a, b := pairOf(t, map[string]string{"mode": "gpu"}, map[string]string{"fault": faultOneTag})
		a.post(t, []byte("payload"))
		_, err := a.poll(t, b)
		require.ErrorIs(t, err, transport.ErrCorrupt)
		require.ErrorContains(t, err, "tag mismatch")
		require.ErrorIs(t, a.worker.peers.Get(0).conn.Err, conn.ErrTagMismatch)
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
		a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"},
			map[string]string{"fault": faultEarlyConsume}, func() { first = false })
		late.Hold(true)
		payload := bytes.Repeat([]byte("right"), 100)
		b.post(t, payload)
		require.Equal(t, len(payload), a.await(t, b).Size, "reported before the GPU has it")
		clear(a.worker.memory.Memory()) // as the next requests will
		got := make([]byte, len(payload))
		require.NoError(t, a.worker.unpacker.Unpacker.(*bounce.GPU).Read(got,
			a.destination(t, len(got))))
		require.NotEqual(t, payload, got, "the fault does no harm")
	})
}

// TestSendsAfterTheCopy: a request leaves only after the copies from the GPU that fill it, however
// long they take. The fault early-send sends before, and the bytes are wrong.
func TestSendsAfterTheCopy(t *testing.T) {
	for _, fault := range []string{faultNone, faultEarlySend} {
		t.Run(fault, func(t *testing.T) {
			var sender *gputest.Device // the last that a opens is its worker's
			first := true
			replaceDevice(t, func(int) (gpu.Device, error) {
				d := &gputest.Device{}
				if first {
					sender = d
				}
				return d.Open()
			})
			a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "4KiB"},
				map[string]string{"send-memory": "device", "fault": fault},
				func() { first = false })
			require.True(t, a.endpoint.Properties().Capabilities.DeviceSend)
			require.Equal(t, "device", a.endpoint.Properties().Notes["send_memory"])
			b.post(t, []byte("connect")) // b's calls need no device
			a.await(t, b)

			payload := make([]byte, 60<<10)
			fill(payload, 1)
			require.NoError(t, a.worker.ReserveDevice(2, len(payload)))
			require.NoError(t, a.worker.WriteDevice(2, payload))
			sender.Hold(true)
			n, err := a.worker.Post([]transport.Op{{Kind: transport.OpCall, DeviceSlot: 2,
				Payload: payload[:testHead]}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			if fault == faultNone {
				for range 200 {
					require.NoError(t, a.worker.Flush())
					_, err := a.worker.Poll(a.events)
					require.NoError(t, err)
				}
				require.Zero(t, a.worker.peers.Get(0).conn.Out.Posted(),
					"a request is sent before the GPU has copied it")
				sender.Hold(false)
			}
			require.NoError(t, a.worker.Flush())
			e := b.await(t, a)
			require.Equal(t, len(payload), e.Size)
			require.Equal(t, payload[:testHead], e.Payload)
			got := make([]byte, e.Size)
			valid, err := b.worker.ReadDevice(0, e.DeviceOffset, got)
			require.NoError(t, err)
			require.True(t, valid)
			require.Equal(t, fault == faultNone, bytes.Equal(payload, got))
			if fault == faultNone {
				values := map[string]uint64{}
				for _, s := range a.worker.ReadStats(nil) {
					values[s.Name] = s.Value
				}
				require.Equal(t, []uint64{15, uint64(len(payload) - testHead), 3, 32},
					[]uint64{values["gpu_send_copies"], values["gpu_send_bytes"],
						values["gpu_streams_made"], values["gpu_events_made"]})
				require.Positive(t, values["gpu_send_ns"])
			}
			sender.Hold(false)
			require.NoError(t, a.endpoint.Close())
			require.NoError(t, b.endpoint.Close())
			require.Empty(t, sender.Mistakes())
		})
	}
}

// TestFailingCopyEndsTheConnection: the GPU's error becomes the connection's, and nothing is sent.
func TestFailingCopyEndsTheConnection(t *testing.T) {
	var device *gputest.Device
	first := true
	replaceDevice(t, func(int) (gpu.Device, error) {
		d := &gputest.Device{}
		if first {
			device = d
		}
		return d.Open()
	})
	a, _ := pairOf(t, map[string]string{"mode": "gpu", "send-memory": "device"}, nil,
		func() { first = false })
	require.NoError(t, a.worker.ReserveDevice(1, 5000))
	require.NoError(t, a.worker.WriteDevice(1, make([]byte, 5000)))
	device.Fail("CopyOut")
	_, err := a.worker.Post([]transport.Op{{Kind: transport.OpCall, DeviceSlot: 1}})
	require.NoError(t, err)
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); {
		_ = a.worker.Flush()
		_, err = a.worker.Poll(a.events)
	}
	require.ErrorContains(t, err, "fails deliberately: CopyOut")
}

// TestSendMemoryIsRefused: without a GPU that unpacks, and for slots that have no payload.
func TestSendMemoryIsRefused(t *testing.T) {
	fakeGPUs(t)
	for _, raw := range []map[string]string{{}, {"mode": "devmem"},
		{"mode": "gpu", "unpack": "none"}} {
		raw["send-memory"] = "device"
		_, err := resolveOptions(options(t, raw))
		require.ErrorContains(t, err, `option "send-memory": device needs mode=gpu or mode=devmem`)
		require.NotContains(t, err.Error(), "\n")
	}
	for _, raw := range []map[string]string{{}, {"mode": "gpu"}, {"mode": "devmem"},
		{"mode": "devmem", "unpack": "copy-engine"}} {
		raw["dmabuf-memory"] = "device"
		_, err := resolveOptions(options(t, raw))
		require.ErrorContains(t, err, `option "dmabuf-memory": device needs mode=devmem`)
	}
	a, b := pairOf(t, map[string]string{"mode": "gpu"}, map[string]string{"send-memory": "device"})
	require.ErrorIs(t, b.worker.ReserveDevice(1, 10), transport.ErrUnsupported)
	require.ErrorIs(t, a.worker.WriteDevice(1, nil), transport.ErrUnsupported)
	require.NoError(t, a.worker.ReserveDevice(1, 10))
	require.ErrorIs(t, a.worker.ReserveDevice(1, 10), transport.ErrUnsupported)
	require.ErrorIs(t, a.worker.WriteDevice(1, make([]byte, 11)), transport.ErrTooLarge)
	require.ErrorIs(t, a.worker.WriteDevice(0, nil), transport.ErrUnsupported)
	require.NoError(t, a.worker.WriteDevice(1, make([]byte, 10)))
	for _, op := range []transport.Op{{DeviceSlot: 2}, {DeviceSlot: 1, Payload: make([]byte, 11)}} {
		op.Kind = transport.OpCall
		_, err := a.worker.Post([]transport.Op{op})
		require.ErrorIs(t, err, transport.ErrUnsupported)
		_, err = b.worker.Post([]transport.Op{op})
		require.ErrorIs(t, err, transport.ErrUnsupported)
	}
}

// TestUnavailableModes: without a GPU and a NIC, opening fails with one line that says why, and
// auto takes mode host and reports that.
func TestUnavailableModes(t *testing.T) {
	replaceDevice(t, func(int) (gpu.Device, error) {
		return nil, fmt.Errorf("%s: cannot open shared object file: No such file or directory",
			cuda.Library)
	})
	for mode, words := range map[string]string{
		"gpu": "unavailable: mode gpu: libcuda.so.1: cannot open shared object file: No such " +
			"file or directory; it needs NVIDIA's driver and a GPU",
		"devmem": "unavailable: mode devmem: ",
	} {
		_, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1,
			MaxPayload: 1, Options: options(t, map[string]string{"mode": mode})})
		require.ErrorIs(t, err, transport.ErrUnavailable)
		require.ErrorContains(t, err, words)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Driver{}.Open(t.Context(),
		transport.Config{Options: options(t,
			map[string]string{"mode": "auto", "unpack": string(gpu.Kernel)})})
	require.ErrorContains(t, err, `option "mode": auto finds none`)
	require.ErrorContains(t, err, "libcuda.so.1: cannot open shared object file")

	r, err := Driver{}.Open(t.Context(),
		transport.Config{Options: options(t, map[string]string{"mode": "auto"})})
	require.NoError(t, err)
	require.Equal(t, "host", r.Properties().Provider)
	require.Contains(t, r.Properties().Notes["auto"], "host; unavailable: mode devmem: ")
	require.Contains(t, r.Properties().Notes["auto"],
		"libcuda.so.1: cannot open shared object file")
	require.NoError(t, r.Close())

	fakeGPUs(t)
	r, err = Driver{}.Open(t.Context(), transport.Config{
		Options: options(t, map[string]string{"mode": "auto"})})
	require.NoError(t, err)
	require.Equal(t, "gpu", r.Properties().Provider)
	require.NoError(t, r.Close())
}

// TestStreamOnGPU copies a transfer back and verifies it: the kernel and the copy engine bring
// every byte, none brings none.
func TestStreamOnGPU(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T){"fake": fakeGPUs, "real": needGPU} {
		for _, unpack := range []string{string(gpu.Kernel), string(gpu.CopyEngine),
			bounce.UnpackNone} {
			t.Run(name+"/"+unpack, func(t *testing.T) {
				prepare(t)
				const size = 1<<20 + 12345
				s, err := resolveOptions(
					options(t, map[string]string{"mode": "gpu", "unpack": unpack, "chunk": "64KiB",
						"sockets": "2"}))
				require.NoError(t, err)
				var unpacker *bounce.Slots // of the receiver, in the end
				a, b, err := conn.NewSides(s.connConfig(0), &s.sock, false, 64*s.request,
					func() (memory bounce.Allocator, _ *bounce.Slots, err error) {
						memory, unpacker, err = s.memory.Open()
						return memory, unpacker, err
					})
				require.NoError(t, err)
				source := make([]byte, size)
				fill(source, 1)

				var stopped atomic.Bool
				sent := make(chan error, 1)
				go func() {
					rest := source
					sent <- a.SendAll(&stopped, 0, func() (part []byte) {
						part, rest = rest[:min(s.request, len(rest))],
							rest[min(s.request, len(rest)):]
						return part
					})
				}()
				n, err := b.ReceiveAll(&stopped, 0, func(number uint64) bounce.Buffer {
					return b.Destination.Slice(int(number)%64*s.request, s.request)
				})
				require.NoError(t, err)
				require.NoError(t, <-sent)
				require.Equal(t, size, n)

				got := make([]byte, size)
				require.NoError(t, unpacker.Unpacker.(*bounce.GPU).Read(got, b.Destination))
				require.Equal(t, unpack != bounce.UnpackNone, bytes.Equal(source, got))
				counts := map[string]uint64{}
				for _, s := range unpacker.Unpacker.(*bounce.GPU).Counters(nil) {
					counts[s.Name] = s.Value
				}
				switch unpack {
				case string(gpu.Kernel):
					require.Equal(t, uint64(17), counts["gpu_launches"], "one for each request")
					require.Zero(t, counts["gpu_copies"])
				case string(gpu.CopyEngine):
					require.Equal(t, counts["gpu_descriptors"], counts["gpu_copies"],
						"one for each fragment")
					require.GreaterOrEqual(t, counts["gpu_copies"], uint64(size/pageSize))
				default:
					require.Zero(t, counts["gpu_launches"]+counts["gpu_copies"])
				}
				require.NoError(t, a.Close())
				require.NoError(t, b.Close())
			})
		}
	}
}

// fill fills b with random bytes.
func fill(b []byte, seed uint64) {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = random.Read(b) // it returns no error
}

// TestReadDevice: payloads stay for a while, and ReadDevice reports those that are gone.
func TestReadDevice(t *testing.T) {
	fakeGPUs(t)
	a, b := pairOf(t, map[string]string{"mode": "gpu", "chunk": "64KiB"}, nil)
	var offsets []uint64
	payload := make([]byte, 300) // each goes alone, and so takes a slot
	into := make([]byte, len(payload))
	there := 0
	for i := range 300 {
		fill(payload, uint64(i))
		a.post(t, payload)
		e := b.await(t, a)
		require.Equal(t, payload[:testHead], e.Payload)
		offsets = append(offsets, e.DeviceOffset)
		_, err := b.worker.Post([]transport.Op{{Kind: transport.OpReply, Token: e.Token}})
		require.NoError(t, err)
		require.NoError(t, b.worker.Flush())
		a.await(t, b)
	}
	for i := len(offsets) - 1; i >= 0; i-- {
		valid, err := b.worker.ReadDevice(0, offsets[i], into)
		require.NoError(t, err)
		if !valid {
			break
		}
		there++
		fill(payload, uint64(i))
		require.Equal(t, payload, into)
	}
	require.GreaterOrEqual(t, there, keptMessages)
	require.Less(t, there, len(offsets))

	_, err := b.worker.ReadDevice(7, 0, into)
	require.ErrorIs(t, err, transport.ErrPeerDown)
	_, err = b.worker.ReadDevice(0, offsets[len(offsets)-1],
		make([]byte, b.worker.settings.payload+1))
	require.ErrorIs(t, err, transport.ErrTooLarge)
	require.NoError(t, b.endpoint.Close())
	_, err = b.worker.ReadDevice(0, 0, into)
	require.ErrorIs(t, err, transport.ErrClosed)

	host, _ := pairOf(t, nil, nil)
	_, err = host.worker.ReadDevice(0, 0, into)
	require.ErrorIs(t, err, transport.ErrUnsupported)
}
