package witness

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma/perftest"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// declared are references as transports declare them.
var declared = append(perftest.References("ib_write"), transport.Reference{
	Tool: "ucx_perftest", Package: "ucx-utils", Version: []string{"ucx_info", "-v"},
	Name: "ucx_perftest ucp_am_bw", Medium: "gpu", Depth: transport.DepthSeveral, Pad: 8,
	Server: []string{"-p", "{port}"}, Client: []string{"-p", "{port}", "{address}", "-s", "{size}"},
	Environment: map[string]string{"UCX_TLS": "{tls}", "UCX_NET_DEVICES": "{net-devices}"},
	Takes:       time.Second, Reading: `rate (?P<value>[\d.]+) of (?P<samples>\d+)`,
	Quantity: transport.MessageRate, Unit: 1,
})

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, c := range map[string]struct {
		load Load
		says string
	}{
		"memory": {Load{Transport: "shm", Medium: transport.MediumMemory, InFlight: 1},
			"none is known for round trips of shm over memory"},
		"deep": {Load{Transport: "erpc", Medium: transport.MediumUDP, InFlight: 32},
			"none is known for 32 messages in flight of erpc over udp"},
		"library": {Load{Medium: "gpu", InFlight: 32},
			"ucx_perftest is not installed: apt install ucx-utils"},
		"verbs": {Load{Medium: transport.MediumVerbs, InFlight: 1},
			"ib_write_lat is not installed: apt install perftest"},
		"verbs, deep": {Load{Medium: transport.MediumVerbs, InFlight: 8},
			"ib_write_bw is not installed: apt install perftest"},
		"udp": {Load{Medium: transport.MediumUDP, InFlight: 1},
			"sockperf is not installed: apt install sockperf"},
		"one over TCP": {Load{Medium: transport.MediumTCP, Size: 32, InFlight: 1},
			"sockperf is not installed: apt install sockperf"},
		"large": {Load{Medium: transport.MediumTCP, Size: 1 << 20, InFlight: 4},
			"iperf3 is not installed: apt install iperf3"},
	} {
		t.Run(name, func(t *testing.T) {
			w, missing := find(t, c.load)
			require.Nil(t, w)
			require.Equal(t, c.says, missing)
		})
	}
}

// find finds the witness of a load on this host.
func find(t *testing.T, load Load) (*Witness, string) {
	here := &Local{References: declared}
	return Find(t.Context(), declared, load, here, here)
}

// The outputs have the columns that the tools print, with figures that cannot be mistaken for each
// other.
func TestReadings(t *testing.T) {
	one := Load{Size: 64, InFlight: 1}
	many := Load{Size: 1 << 20, Smaller: 1 << 19, InFlight: 8}
	for name, c := range map[string]struct {
		of     *transport.Reference
		load   Load
		output string
		want   transport.Floor
	}{
		"ib_write_lat": {&declared[0], one,
			" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n" +
				" 64      5000          1.01           9.02         1.25               1.30  " +
				"         " +
				"0.10            1.90                   3.30\n",
			transport.Floor{Name: "ib_write_lat", RoundTrip: 2500, Samples: 5000}},
		"ib_write_bw": {&declared[1], many,
			" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n" +
				" 64         5000             7.00               6.00               0.250000\n",
			transport.Floor{Name: "ib_write_bw", PerOp: 6000, Samples: 5000}},
		"the last of two": {&declared[2], many, "rate 1 of 10\nrate 2000000 of 1562\n",
			transport.Floor{Name: "ucx_perftest ucp_am_bw", PerOp: 750, Samples: 1562}},
		"sockperf": {&media[0], one,
			"sockperf: \x1b[2;35mTotal 67356 observations\x1b[0m; each percentile contains " +
				"673.56 observations\nsockperf: ---> percentile 90.000 =    4.101\n" +
				"sockperf: ---> percentile 50.000 =    3.915\n",
			transport.Floor{Name: "sockperf ping-pong", RoundTrip: 7830, Samples: 67356}},
		"iperf3": {&media[2], many,
			`{"end":{"sum_sent":{"bytes":5,"bits_per_second":1},"sum_received":{"bytes":1048576000,` +
				`"bits_per_second":8388608000}}}`,
			transport.Floor{Name: "iperf3", PerOp: 1e6, Samples: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.of.Check())
			got, err := read(c.of, &c.load, []byte(c.output))
			require.NoError(t, err)
			require.InDelta(t, c.want.RoundTrip, got.RoundTrip, 1e-6)
			require.InDelta(t, c.want.PerOp, got.PerOp, 1e-6)
			require.Equal(t, c.want.Name, got.Name)
			require.Equal(t, c.want.Samples, got.Samples)

			for _, wrong := range []string{"", "usage: something\nno such host\n",
				"0,0,0,0,0,0,0,0", `{"error":"unable to connect"}`} {
				_, err = read(c.of, &c.load, []byte(wrong))
				require.Error(t, err, wrong)
			}
		})
	}
}

// fakeTool puts a shell script in place of sockperf, which writes into its directory.
func fakeTool(t *testing.T, server, client string) (dir string, load Load) {
	dir = t.TempDir()
	script := "#!/bin/sh\ncd " + dir + "\nif [ $1 = --version ]; then echo fake 7.8; exit; fi\n" +
		"if [ $1 = server ]; then echo $$ >new; mv new pid; " + server + "; fi\n" + client + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sockperf"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir, Load{Transport: "erpc", Medium: transport.MediumUDP, Size: 100, InFlight: 1,
		Daemon: End{CPU: -1}, Client: End{CPU: -1},
		Bound: "127.0.0.9"}
}

// requireEnded requires that the server of the tool is gone.
func requireEnded(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
}

// The server takes a moment until it listens: the client is started again, after failures of both
// kinds.
func TestMeasure(t *testing.T) {
	dir, load := fakeTool(t, "exec sleep 60", `n=$(cat tries 2>/dev/null || echo 0); echo $((n+1)) >tries
case $n in 0) echo refused; exit 1;; 1) echo in progress; exit 0;; esac
echo "Total 12 observations"; echo "percentile 50.000 = 2.5"; echo "$@" >arguments`)
	w, missing := find(t, load)
	require.Empty(t, missing)
	reading, err := w.Measure(t.Context())
	require.NoError(t, err)
	require.Equal(t, transport.Floor{Name: "sockperf ping-pong", RoundTrip: 5000, Samples: 12},
		reading)
	requireEnded(t, dir)
	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	require.NoError(t, err)
	require.Regexp(t, `^ping-pong -i 127\.0\.0\.9 -p \d+ --nonblocked -m 100 -t 1\n$`,
		string(arguments))
	r := w.Result()
	require.Equal(t, "sockperf", r.Tool)
	require.Equal(t, "7.8", r.Version)
	require.Equal(t, []string{"sockperf", "server", "-i", "127.0.0.9"}, r.Server[:4])
	require.Contains(t, r.Client, "ping-pong")
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	dir, load := fakeTool(t, "exec sleep 60", "exec sleep 60")
	w, missing := find(t, load)
	require.Empty(t, missing)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for _, err := os.Stat(filepath.Join(dir, "pid")); err != nil; _,
			err = os.Stat(filepath.Join(dir, "pid")) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := w.Measure(ctx)
	require.ErrorIs(t, err, context.Canceled)
	requireEnded(t, dir)
}

func TestToolThatFails(t *testing.T) {
	dir, load := fakeTool(t, "exec sleep 60", "echo first; echo no route to host; exit 3")
	w, missing := find(t, load)
	require.Empty(t, missing)
	w.patience = 200 * time.Millisecond
	_, err := w.Measure(t.Context())
	require.ErrorContains(t, err, "sockperf: exit status 3: no route to host; it had 200ms")
	requireEnded(t, dir)
}

// A server that refuses its options ends, and nothing is tried again.
func TestServerThatEnds(t *testing.T) {
	_, load := fakeTool(t, "exit 1", "sleep 0.2; echo bad option; echo -----; exit 3")
	w, missing := find(t, load)
	require.Empty(t, missing)
	w.patience = time.Hour
	_, err := w.Measure(t.Context())
	require.ErrorContains(t, err, "sockperf: exit status 3: bad option; its server has ended")
}

func TestLines(t *testing.T) {
	port := func(device string, number int, gid, link string) map[string]string {
		return perftest.Device(transport.Path{Device: device, Port: number,
			Facts: map[string]string{
				transport.FactGIDIndex: gid, transport.FactLinkLayer: link}})
	}
	load := Load{Medium: transport.MediumVerbs, Size: 1, InFlight: 1,
		Daemon: End{CPU: -1, Reference: port("mlx5_0", 2, "0", "InfiniBand")},
		Client: End{CPU: 3, Reference: port("mlx5_7", 1, "0", "InfiniBand")}}
	server, client := lines(&declared[0], &load, 7)
	common := []string{"ib_write_lat", "--port=7", "--size=2", "--iters=5000", "--CPU-freq"}
	require.Equal(t, append(slices.Clone(common), "--ib-dev=mlx5_0", "--ib-port=2"), server)
	require.Equal(t, append(append([]string{"taskset", "-c", "3"}, common...),
		"--ib-dev=mlx5_7", "--ib-port=1", "127.0.0.1"), client)

	load = Load{InFlight: 16, Size: 64, Address: "10.1.0.2",
		Daemon: End{CPU: -1, Reference: port("rxe0", 1, "3", "Ethernet")}}
	server, client = lines(&declared[1], &load, 7)
	require.Equal(t, []string{"ib_write_bw", "--port=7", "--size=64", "--iters=5000", "--CPU-freq",
		"--tx-depth=16", "--ib-dev=rxe0", "--ib-port=1", "--gid-index=3"}, server)
	require.Equal(t, "10.1.0.2", client[len(client)-1], "the server's host is another one")

	load = Load{InFlight: 64, Size: 4 << 20, Client: End{CPU: -1,
		Reference: map[string]string{"tls": "tcp,self"}}}
	_, client = lines(&declared[2], &load, 7)
	require.Equal(t, []string{"env", "UCX_TLS=tcp,self", "ucx_perftest", "-p", "7", "127.0.0.1",
		"-s", "4194304"}, client)
	require.Equal(t, "100", load.rounds())

	for streams, want := range map[string]string{"": "--parallel 1", "4": "--parallel 4"} {
		load.Streams = streams
		_, client = lines(&media[2], &load, 7)
		require.Contains(t, strings.Join(client, " "), want)
	}
	for _, c := range []struct {
		size, smaller int
		want          float64
	}{{8, 0, 2}, {4096, 64, 2}, {16384, 0, 1.25}, {16384, 16384, 2}} {
		load := Load{Size: c.size, Smaller: c.smaller}
		require.InDelta(t, c.want, load.messages(), 1e-9,
			"messages of a call with %d and %d bytes", c.size, c.smaller)
	}
	require.NoError(t, enough(transport.Floor{Samples: minSamples}))
	require.ErrorContains(t, enough(transport.Floor{Name: "x", Samples: 1}),
		"x: 1 messages are too few")
}

// What comes from a coordinator is no option of a tool and no program.
func TestHostileRequests(t *testing.T) {
	good := func() Request {
		return Request{Step: StepPort, Load: Load{Transport: "erpc", Medium: transport.MediumUDP,
			InFlight: 1, Size: 8}}
	}
	here := new(Local)
	_, err := here.Witness(t.Context(), good())
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Request){
		"option":   func(r *Request) { r.Load.Address = "--file=/etc/passwd" },
		"commands": func(r *Request) { r.Load.Streams = "4; reboot" },
		"lines": func(r *Request) {
			r.Load.Daemon.Reference = map[string]string{"net-devices": "eth0\nLD_PRELOAD=x"}
		},
		"substitute": func(r *Request) { r.Load.Provider = "$(reboot)" },
		"file": func(r *Request) {
			r.Load.Client.Reference = map[string]string{"ib-dev": "/dev/sda"}
		},
		"step": func(r *Request) { r.Step = "shell" },
		"tool": func(r *Request) { r.Load.Medium = "tape" },
	} {
		r := good()
		spoil(&r)
		_, err := here.Witness(t.Context(), r)
		require.Error(t, err, name)
	}
}
