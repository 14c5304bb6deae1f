package ofi

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// BenchmarkPeers alternates libfabric's fi_pingpong and this transport on the same two processors,
// and prints the medians of OFI_PEERS_ROUNDS pairs and of their ratios.
func BenchmarkPeers(b *testing.B) {
	needLibrary(b)
	if _, err := exec.LookPath("fi_pingpong"); err != nil {
		b.Skip("fi_pingpong is not installed: apt install libfabric-bin")
	}
	cpus, rounds := transporttest.Processors(b), transporttest.Rounds("OFI_PEERS_ROUNDS", 10)
	fmt.Printf("libfabric's fi_pingpong and this transport alternate on processors %d and %d, medians of %d pairs\n", cpus[0], cpus[1], rounds)
	for _, provider := range []string{"shm", "tcp"} {
		var theirs, ours, library, ratios []float64
		for range rounds {
			theirs = append(theirs, pingpong(b, provider, 64))
			m := runOurs(b, provider, 64, 1)
			ours, library = append(ours, m.RoundTrip), append(library, m.Floor)
			ratios = append(ratios, m.RoundTrip/theirs[len(theirs)-1])
		}
		fmt.Printf("%-4s 64 B, 1 in flight: fi_pingpong %7.0f ns a round trip, C loops %7.0f ns, ofi %7.0f ns: %.2f x fi_pingpong\n",
			provider, floor.Median(theirs), floor.Median(library), floor.Median(ours), floor.Median(ratios))
	}
}

// pingpong runs fi_pingpong between two processors and returns the mean round trip in nanoseconds.
func pingpong(b *testing.B, provider string, size int) float64 {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	require.NoError(b, listener.Close())
	name := map[string]string{"shm": "shm", "tcp": "tcp;ofi_rxm"}[provider]
	iterations := map[string]string{"shm": "500000", "tcp": "20000"}[provider]
	cpus := transporttest.Processors(b)
	command := func(cpu int, args ...string) *exec.Cmd {
		return exec.Command("taskset", append([]string{"-c", fmt.Sprint(cpu), "fi_pingpong", "-p", name, "-e", "rdm",
			"-I", iterations, "-S", fmt.Sprint(size)}, args...)...)
	}
	server := command(cpus[0], "-B", port)
	require.NoError(b, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var output []byte
	for deadline := time.Now().Add(10 * time.Second); ; {
		output, err = command(cpus[1], "-P", port, "127.0.0.1").Output()
		if err == nil || time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond) // the server is not listening yet
	}
	require.NoError(b, err, string(output))
	for line := range strings.Lines(string(output)) {
		// bytes, sent, acknowledged, total, time, MB/sec, usec/xfer, Mxfers/sec
		if fields := strings.Fields(line); len(fields) == 8 && fields[0] == fmt.Sprint(size) {
			half, err := strconv.ParseFloat(fields[6], 64)
			require.NoError(b, err)
			return 2000 * half
		}
	}
	b.Fatalf("fi_pingpong printed no reading: %s", output)
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
func runOurs(b *testing.B, provider string, size, inFlight int) (m measured) {
	cpus := transporttest.Processors(b)
	r := role{Name: "echo", Options: map[string]string{optionProvider: provider}, MaxPayload: max(size, 64), InFlight: inFlight,
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
