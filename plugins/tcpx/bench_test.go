package tcpx

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// peerRounds returns how often BenchmarkPeers runs each contender.
func peerRounds() int { return transporttest.Rounds("TCPX_PEERS_ROUNDS", 12) }

// BenchmarkPeers compares a stream of requests with the raw loop over the same sockets from the
// same source, and with iperf3, interleaved. The best run of each counts, because noise can only
// make a run slower.
func BenchmarkPeers(b *testing.B) {
	source, err := newSource()
	require.NoError(b, err)
	defer func() { require.NoError(b, unix.Munmap(source)) }()
	for _, sockets := range []string{"1", "4"} {
		b.Run("raw/sockets="+sockets, func(b *testing.B) {
			s := testSettings(b, map[string]string{"sockets": sockets})
			b.ResetTimer()
			for range b.N {
				var raw, ours rates
				var why bulkReading
				for range peerRounds() {
					f, err := rawStream(context.Background(), s, source, 200*time.Millisecond)
					require.NoError(b, err)
					raw.best(f.bandwidth, f.bytes, f.sender, f.receiver)
					r, err := bulkTransfer(context.Background(), s, source, 100*time.Millisecond)
					require.NoError(b, err)
					if ours.best(r.bandwidth(), r.bytes, r.sendCPU, r.receiveCPU) {
						why = r
					}
				}
				b.ReportMetric(raw.wall*8/1e9, "raw-Gb/s")
				b.ReportMetric(ours.wall*8/1e9, "Gb/s")
				b.ReportMetric(ours.wall/raw.wall, "ours/raw")
				b.ReportMetric(raw.processor*8/1e9, "raw-cpu-Gb/s")
				b.ReportMetric(ours.processor*8/1e9, "cpu-Gb/s")
				b.ReportMetric(ours.processor/raw.processor, "cpu-ours/raw")
				b.Log(why.explain())
			}
		})
	}
	b.Run("iperf3", func(b *testing.B) {
		if _, err := exec.LookPath("iperf3"); err != nil {
			b.Skip("iperf3 is not installed; apt install iperf3")
		}
		for range b.N {
			peers, best := map[string]float64{}, map[string]float64{}
			for range peerRounds() {
				for _, streams := range []string{"1", "4"} {
					peers[streams] = max(peers[streams], iperf3(b, streams))
					s := testSettings(b, map[string]string{"sockets": streams, "source": sourceHot})
					r, err := bulkTransfer(context.Background(), s, source, 100*time.Millisecond)
					require.NoError(b, err)
					best[streams] = max(best[streams], r.bandwidth())
				}
			}
			b.ReportMetric(peers["1"]*8/1e9, "iperf3-1-Gb/s")
			b.ReportMetric(peers["4"]*8/1e9, "iperf3-4-Gb/s")
			b.ReportMetric(best["1"]*8/1e9, "ours-1-Gb/s")
			b.ReportMetric(best["4"]*8/1e9, "ours-4-Gb/s")
			b.ReportMetric(max(best["1"], best["4"])/max(peers["1"], peers["4"]), "ours/iperf3")
		}
	})
}

// BenchmarkWork runs both sides of a stream, and of the raw loop, on one thread and counts the
// CPU time of each side, which works on a busy machine, too. The side that takes more limits a
// stream between two CPUs.
func BenchmarkWork(b *testing.B) {
	source, err := newSource()
	require.NoError(b, err)
	defer func() { require.NoError(b, unix.Munmap(source)) }()
	for _, options := range []map[string]string{{}, {"sockets": "4"}, {"unpack": "none"}, {"source": "hot"}} {
		b.Run(fmt.Sprint(options), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := testSettings(b, options)
			for range b.N {
				raw, ours := [2]float64{math.Inf(1), math.Inf(1)}, [2]float64{math.Inf(1), math.Inf(1)}
				for range 3 * peerRounds() {
					least(&raw, rawWork(b, s, source))
					least(&ours, work(b, s, source))
				}
				b.ReportMetric(raw[0], "raw-send-us/chunk")
				b.ReportMetric(raw[1], "raw-receive-us/chunk")
				b.ReportMetric(ours[0], "send-us/chunk")
				b.ReportMetric(ours[1], "receive-us/chunk")
				b.ReportMetric(max(raw[0], raw[1])/max(ours[0], ours[1]), "ours/raw")
			}
		})
	}
}

// least keeps the reading whose longer side took the least time.
func least(best *[2]float64, now [2]float64) {
	if max(now[0], now[1]) < max(best[0], best[1]) {
		*best = now
	}
}

// workChunks is how many chunks one reading of BenchmarkWork moves.
const workChunks = 256

// work returns the CPU time per chunk in microseconds, of the sender and the receiver.
func work(b *testing.B, s *settings, source []byte) (times [2]float64) {
	from, to, err := newBulkSides(s, footprint)
	require.NoError(b, err)
	defer func() {
		require.NoError(b, from.close())
		require.NoError(b, to.close())
	}()
	touch(to.destination.Host[:footprint])
	parts := s.parts(source, s.request)
	sends, receives := from.conn, to.conn
	step := func(times *[2]float64) {
		at := threadTime()
		for sends.freeSend() {
		}
		for sends.sendPosted-sends.sendFreed < uint64(s.sendWindow) {
			err := sends.postSend(parts(), 0, sends.sendPosted)
			require.NoError(b, err)
		}
		for before := uint64(1); before != from.counters.sentBytes; {
			before = from.counters.sentBytes
			require.NoError(b, from.progress())
		}
		sent := threadTime()
		for receives.receivePosted-receives.receiveConsumed < uint64(s.receiveWindow) {
			slot := int(receives.receivePosted) % (footprint / s.request)
			err := receives.postReceive(to.destination.Slice(slot*s.request, s.request), receives.receivePosted)
			require.NoError(b, err)
		}
		for before := uint64(1); before != to.counters.receivedBytes; {
			before = to.counters.receivedBytes
			require.NoError(b, to.progress())
			for consumed(to) {
			}
		}
		times[0] += float64((sent - at).Nanoseconds())
		times[1] += float64((threadTime() - sent).Nanoseconds())
	}
	for range 2 { // the first warms up
		times = [2]float64{}
		for until := to.counters.consumes + workChunks; to.counters.consumes < until; {
			step(&times)
		}
	}
	return [2]float64{times[0] / workChunks / 1e3, times[1] / workChunks / 1e3}
}

// rawWork is work for the raw loop, with as many bytes in flight.
func rawWork(b *testing.B, s *settings, source []byte) (times [2]float64) {
	near, far, err := s.sock.Pairs(s.sockets)
	require.NoError(b, err)
	defer func() {
		require.NoError(b, sock.CloseAll(near))
		require.NoError(b, sock.CloseAll(far))
	}()
	parts, buffer := s.parts(source, s.chunk), make([]byte, s.chunk)
	left := make([][]byte, len(near))
	underWay := 0
	for range 2 {
		times = [2]float64{}
		for received := 0; received < workChunks*s.chunk; {
			at := threadTime()
			for moved := true; moved && underWay < s.sendWindow*s.request; {
				moved = false
				for i, fd := range near {
					if len(left[i]) == 0 {
						left[i] = parts()
					}
					n, err := sock.SendBytes(fd, left[i])
					require.NoError(b, err)
					left[i] = left[i][n:]
					underWay += n
					moved = moved || n > 0
				}
			}
			sent := threadTime()
			for moved := true; moved; {
				moved = false
				for _, fd := range far {
					n, err := sock.ReceiveBytes(fd, buffer)
					require.NoError(b, err)
					received += n
					underWay -= n
					moved = moved || n > 0
				}
			}
			times[0] += float64((sent - at).Nanoseconds())
			times[1] += float64((threadTime() - sent).Nanoseconds())
		}
	}
	return [2]float64{times[0] / workChunks / 1e3, times[1] / workChunks / 1e3}
}

// rates are bandwidths in bytes per second: by the clock, and by the CPU time of the slower
// thread, which is what the clock would show if nothing else ran.
type rates struct{ wall, processor float64 }

// best keeps the best of each and reports whether wall is a new best.
func (r *rates) best(wall float64, bytes int, sender, receiver time.Duration) bool {
	r.processor = max(r.processor, float64(bytes)/max(sender, receiver).Seconds())
	if wall <= r.wall {
		return false
	}
	r.wall = wall
	return true
}

// testSettings resolves options.
func testSettings(tb testing.TB, options map[string]string) *settings {
	tb.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(tb, err)
	s, err := resolve(transport.Config{Options: values})
	require.NoError(tb, err)
	return s
}

// iperf3 returns the bandwidth that the receiver of iperf3 reports, in bytes per second.
func iperf3(b *testing.B, streams string) float64 {
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	port := strconv.Itoa(probe.Addr().(*net.TCPAddr).Port)
	require.NoError(b, probe.Close())
	server := exec.Command("iperf3", "-s", "-1", "-p", port)
	require.NoError(b, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var out []byte
	for try := 0; ; try++ {
		out, err = exec.Command("iperf3", "-c", "127.0.0.1", "-p", port, "-C", "cubic", "-l", "512K", "-P", streams, "-n", "512M", "-J").Output()
		if err == nil {
			break
		}
		require.Less(b, try, 100, "iperf3: %v: %s", err, out)
		time.Sleep(20 * time.Millisecond)
	}
	var report struct {
		End struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	require.NoError(b, json.Unmarshal(out, &report), string(out))
	return report.End.Received.BitsPerSecond / 8
}
