package ucxam

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// BenchmarkPeers alternates UCX's ucx_perftest and this transport on the same two processors
// and prints how much slower this transport is, by the best of UCXAM_PEERS_ROUNDS runs of
// each. make bench-peers runs it.
func BenchmarkPeers(b *testing.B) {
	if missing != "" {
		b.Skip(missing)
	}
	if _, err := exec.LookPath("ucx_perftest"); err != nil {
		b.Skip("ucx_perftest is not installed: apt install ucx-utils")
	}
	cpus, rounds := transporttest.Processors(b), transporttest.Rounds("UCXAM_PEERS_ROUNDS", 8)
	fmt.Printf("UCX's ucx_perftest and this transport alternate on processors %d and %d, best of %d\n", cpus[0], cpus[1], rounds)
	for _, lane := range []string{"posix", "tcp"} {
		for _, size := range []int{8, 64} {
			comparePingPong(b, lane, size, rounds)
		}
		compareRate(b, lane, 64, rounds)
	}
}

func comparePingPong(b *testing.B, lane string, size, rounds int) {
	theirs, ours, floor := math.Inf(1), math.Inf(1), math.Inf(1)
	for range rounds {
		theirs = min(theirs, 2000*perftest(b, lane, "ucp_am_lat", size).latency)
		m := runOurs(b, lane, size, 1)
		ours, floor = min(ours, m.RoundTrip), min(floor, m.Floor)
	}
	fmt.Printf("%-6s %3d B, 1 in flight:  ucp_am_lat %8.0f ns a round trip, C floor %8.0f ns, ucxam %8.0f ns: %.2f x ucp_am_lat\n",
		lane, size, theirs, floor, ours, ours/theirs)
}

func compareRate(b *testing.B, lane string, size, rounds int) {
	var theirs, ours float64
	for range rounds {
		theirs = max(theirs, perftest(b, lane, "ucp_am_bw", size).rate)
		ours = max(ours, runOurs(b, lane, size, 64).Rate)
	}
	fmt.Printf("%-6s %3d B, 64 in flight: ucp_am_bw %10.0f messages/s, ucxam %10.0f round trips/s: %.2f x in messages, %.2f x in round trips\n",
		lane, size, theirs, ours, 2*ours/theirs, ours/theirs)
}

// reading is the result of ucx_perftest. The latency is the median of its last samples, which
// other load on the machine changes less than the mean.
type reading struct{ latency, rate float64 } // microseconds one way; messages per second

// perftestLine matches its last line with -v: iterations, latencies, bandwidths and rates.
var perftestLine = regexp.MustCompile(`^\d+(,[0-9.]+){7}$`)

func perftest(b *testing.B, lane, test string, size int) reading {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	require.NoError(b, listener.Close())
	iterations := map[string]string{"posix": "500000", "tcp": "20000"}[lane]
	if test == "ucp_am_bw" {
		iterations = map[string]string{"posix": "5000000", "tcp": "200000"}[lane]
	}
	command := func(cpu int, args ...string) *exec.Cmd {
		cmd := exec.Command("taskset", append([]string{"-c", fmt.Sprint(cpu), "ucx_perftest", "-p", port}, args...)...)
		cmd.Env = append(os.Environ(), "UCX_TLS="+lane+",self")
		return cmd
	}
	cpus := transporttest.Processors(b)
	server := command(cpus[0])
	require.NoError(b, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var output []byte
	for deadline := time.Now().Add(10 * time.Second); ; {
		output, err = command(cpus[1], "127.0.0.1", "-t", test, "-s", fmt.Sprint(size), "-n", iterations, "-w", "5000", "-f", "-v").CombinedOutput()
		if err == nil || time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond) // the server is not listening yet
	}
	require.NoError(b, err, string(output))
	lines := strings.Fields(string(output))
	for _, line := range slices.Backward(lines) {
		if perftestLine.MatchString(line) {
			fields := strings.Split(line, ",")
			latency, _ := strconv.ParseFloat(fields[1], 64)
			rate, _ := strconv.ParseFloat(fields[7], 64)
			return reading{latency, rate}
		}
	}
	b.Fatalf("ucx_perftest printed no reading: %s", output)
	panic("unreachable")
}

// measured is the output of a calling child.
type measured struct {
	RoundTrip float64 // ns, the median over batches of 16 or more
	Rate      float64 // round trips per second
	Floor     float64 // ns, the median of the probe
}

func init() { childRoles["call"] = callFor }

// runOurs measures this transport between two processes.
func runOurs(b *testing.B, lane string, size, inFlight int) (m measured) {
	cpus := transporttest.Processors(b)
	r := role{Name: "echo", Options: map[string]string{optionTLS: lane}, MaxPayload: max(size, 64), InFlight: inFlight,
		Size: size, Duration: 300 * time.Millisecond, CPU: cpus[0]}
	if inFlight == 1 {
		r.Name = "follow"
	}
	server, serverAddress := start(b, r)
	r.Name, r.CPU = "call", cpus[1]
	client, clientAddress := start(b, r)
	server.meet(b, clientAddress)
	client.meet(b, serverAddress)
	require.NoError(b, json.Unmarshal([]byte(client.line(b)), &m))
	_ = client.in.Close()
	_ = client.cmd.Wait()
	return m
}

// callFor keeps calls in flight for a time, after a warm-up of a quarter of it.
func callFor(r role, w *worker) (any, error) {
	var m measured
	inFlight := max(r.InFlight, 1)
	if inFlight == 1 {
		floor, err := probe(w, true, r.Duration/4)
		if err != nil {
			return nil, err
		}
		m.Floor = floor.RoundTrip
	}
	payload := make([]byte, r.Size)
	ops := make([]transport.Op, inFlight)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i), Payload: payload}
	}
	events := make([]transport.Event, 64)
	waiting := inFlight
	step := func() (int, error) {
		if waiting > 0 {
			taken, err := w.Post(ops[:waiting])
			if err != nil {
				return 0, err
			}
			waiting -= taken
			if err := w.Flush(); err != nil {
				return 0, err
			}
		}
		n, err := w.Poll(events)
		waiting += n
		return n, err
	}
	for _, d := range []time.Duration{r.Duration / 4, r.Duration} {
		total, begin := 0, time.Now()
		batches := make([]float64, 0, 1<<20)
		for now := begin; now.Sub(begin) < d; {
			done := 0
			for done < 16*inFlight {
				n, err := step()
				if err != nil {
					return nil, err
				}
				done += n
			}
			last := now
			now = time.Now()
			total += done
			if len(batches) < cap(batches) {
				batches = append(batches, float64(now.Sub(last))/float64(done))
			}
			m.Rate = float64(total) / now.Sub(begin).Seconds()
		}
		slices.Sort(batches)
		m.RoundTrip = batches[len(batches)/2]
	}
	return m, nil
}
