package tcpx

import (
	"context"
	"encoding/json"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// peerRounds is how often each contender of BenchmarkPeers has its turn.
const peerRounds = 12

// BenchmarkPeers compares a stream of requests, in turn, with the raw loop over the
// same sockets from the same source, and with iperf3. Of each the best turn counts: what
// disturbs a turn can only make it slower.
func BenchmarkPeers(b *testing.B) {
	source, err := newSource()
	require.NoError(b, err)
	defer func() { require.NoError(b, unix.Munmap(source)) }()
	for _, sockets := range []string{"1", "4"} {
		b.Run("raw/sockets="+sockets, func(b *testing.B) {
			s := testSettings(b, map[string]string{"sockets": sockets})
			b.ResetTimer()
			for range b.N {
				var raw, ours float64
				var why reading
				for range peerRounds {
					f, err := rawStream(context.Background(), s, source, 200*time.Millisecond)
					require.NoError(b, err)
					raw = max(raw, f.bandwidth)
					r, err := stream(context.Background(), s, source, 100*time.Millisecond)
					require.NoError(b, err)
					if r.bandwidth() > ours {
						ours, why = r.bandwidth(), r
					}
				}
				b.ReportMetric(raw*8/1e9, "raw-Gb/s")
				b.ReportMetric(ours*8/1e9, "Gb/s")
				b.ReportMetric(ours/raw, "ours/raw")
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
			for range peerRounds {
				for _, streams := range []string{"1", "4"} {
					peers[streams] = max(peers[streams], iperf3(b, streams))
					s := testSettings(b, map[string]string{"sockets": streams, "source": sourceHot})
					r, err := stream(context.Background(), s, source, 100*time.Millisecond)
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

// testSettings are resolved settings of some options.
func testSettings(tb testing.TB, options map[string]string) *settings {
	tb.Helper()
	values, err := transport.ParseOptions(schema, options)
	require.NoError(tb, err)
	s, err := resolve(transport.Config{Options: values})
	require.NoError(tb, err)
	return s
}

// iperf3 is the bandwidth that the receiver of iperf3 sees, in bytes per second.
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
