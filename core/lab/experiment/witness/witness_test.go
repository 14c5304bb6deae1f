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

	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, c := range map[string]struct {
		load Load
		says string
	}{
		"shm": {Load{Transport: "shm", Medium: transport.MediumMemory, InFlight: 1},
			"no benchmark of the field measures round trips of shm over memory"},
		"deep": {Load{Transport: "erpc", Medium: transport.MediumUDP, InFlight: 32},
			"no benchmark of the field measures 32 messages in flight of erpc over udp"},
		"ucxam": {Load{Transport: "ucxam", Provider: "posix", InFlight: 32},
			"ucx_perftest is not installed: apt install ucx-utils"},
		"ofi": {Load{Transport: "ofi", Provider: "shm", InFlight: 1},
			"fi_pingpong is not installed: apt install libfabric-bin"},
		"copyrpc": {Load{Transport: "copyrpc", Medium: transport.MediumVerbs, InFlight: 1},
			"ib_write_lat is not installed: apt install perftest"},
		"erpc verbs": {Load{Transport: "erpc", Medium: transport.MediumVerbs, InFlight: 1},
			"ib_send_lat is not installed: apt install perftest"},
		"erpc, deep": {Load{Transport: "erpc", Medium: transport.MediumVerbs, InFlight: 8},
			"ib_send_bw is not installed: apt install perftest"},
		"erpc": {Load{Transport: "erpc", Medium: transport.MediumUDP, InFlight: 1},
			"sockperf is not installed: apt install sockperf"},
		"one over TCP": {Load{Transport: "tcpx", Medium: transport.MediumTCP, Size: 32,
			InFlight: 1}, "sockperf is not installed: apt install sockperf"},
		"large": {Load{Transport: "tcpx", Medium: transport.MediumTCP, Size: 1 << 20,
			InFlight: 4}, "iperf3 is not installed: apt install iperf3"},
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
	here := new(Local)
	return Find(t.Context(), load, here, here)
}

// The outputs have the columns that the tools print, with figures that cannot be mistaken for each
// other.
func TestReadings(t *testing.T) {
	one, many := Load{Transport: "copyrpc", Size: 64, InFlight: 1},
		Load{Size: 1 << 20, Smaller: 1 << 19, InFlight: 8}
	for name, c := range map[string]struct {
		read   func(*Load, []byte) (transport.Floor, error)
		load   Load
		output string
		want   transport.Floor
	}{
		"ucx_perftest, a round trip": {perftestReading, one,
			"iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr," +
				"overall_mr\n" +
				"1000,0.2,0.3,0.4,5,6,7,8\n4000,0.155,0.3,0.4,5,6,7,8\n",
			transport.Floor{Name: "ucx_perftest ucp_am_lat", RoundTrip: 310, Samples: 4000}},
		"ucx_perftest, a rate": {perftestReading, many,
			"1562,0.140,inf,651.2,0.00,767.8,0,2000000\n",
			transport.Floor{Name: "ucx_perftest ucp_am_bw", PerOp: 750, Samples: 1562}},
		"fi_pingpong": {pingpongReading, Load{Size: 64, InFlight: 1, Provider: "shm"},
			"bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n64  " +
				"    20k     =20k     2.4m        0.02s     110.1       0.58       1.72\n",
			transport.Floor{Name: "fi_pingpong", RoundTrip: 1160, Samples: 20_000}},
		"ib_write_lat": {toolNamed("ib_write_lat").reading, one,
			" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]   " +
				" t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n" +
				" 64      5000          1.01           9.02         1.25               1.30      " +
				"     0.10            1.90                   3.30\n",
			transport.Floor{Name: "ib_write_lat", RoundTrip: 2500, Samples: 5000}},
		"ib_write_bw": {toolNamed("ib_write_bw").reading, many,
			" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n " +
				"64         5000             7.00               6.00               0.250000\n",
			transport.Floor{Name: "ib_write_bw", PerOp: 6000, Samples: 5000}},
		"sockperf": {sockperfReading, one,
			"sockperf: \x1b[2;35mTotal 67356 observations\x1b[0m; each percentile contains " +
				"673.56 observations\n" +
				"sockperf: ---> percentile 90.000 =    4.101\nsockperf: ---> percentile 50.000 = " +
				"   3.915\n",
			transport.Floor{Name: "sockperf ping-pong", RoundTrip: 7830, Samples: 67356}},
		"iperf3": {iperfReading, many,
			`{"end":{"sum_sent":{"bits_per_second":1},"sum_received":{"bytes":1048576000,"bits_per_second":8388608000}}}`,
			transport.Floor{Name: "iperf3", PerOp: 1e6, Samples: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.read(&c.load, []byte(c.output))
			require.NoError(t, err)
			require.InDelta(t, c.want.RoundTrip, got.RoundTrip, 1e-6)
			require.InDelta(t, c.want.PerOp, got.PerOp, 1e-6)
			require.Equal(t, c.want.Name, got.Name)
			require.Equal(t, c.want.Samples, got.Samples)

			for _, wrong := range []string{"", "usage: something\nno such host\n",
				"0,0,0,0,0,0,0,0", `{"error":"unable to connect"}`} {
				_, err = c.read(&c.load, []byte(wrong))
				require.Error(t, err, wrong)
			}
		})
	}
}

func toolNamed(name string) *tool {
	for i := range tools {
		if tools[i].name == name {
			return &tools[i]
		}
	}
	return nil
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
		Options: map[string]string{"address": "127.0.0.9"}}
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

func TestOptions(t *testing.T) {
	port := func(device string, port int, gid, link string) *transport.Path {
		return &transport.Path{Device: device, Port: port,
			Facts: map[string]string{transport.FactGIDIndex: gid, transport.FactLinkLayer: link}}
	}
	load := Load{Transport: "copyrpc", Medium: transport.MediumVerbs, Size: 8, InFlight: 1,
		Options: map[string]string{"device": "", "port": "0"},
		Daemon:  End{Port: port("mlx5_0", 2, "0", "InfiniBand")},
		Client:  End{Port: port("mlx5_7", 1, "0", "InfiniBand")}}
	server, client := toolNamed("ib_write_lat").commands(&load, "7")
	common := []string{"ib_write_lat", "--port=7", "--size=8", "--iters=5000", "--CPU-freq"}
	require.Equal(t, append(slices.Clone(common), "--ib-dev=mlx5_0", "--ib-port=2"), server)
	require.Equal(t, append(slices.Clone(common), "--ib-dev=mlx5_7", "--ib-port=1", "127.0.0.1"),
		client)

	load = Load{InFlight: 16, Size: 64, Daemon: End{Port: port("rxe0", 1, "3", "Ethernet")},
		Address: "10.1.0.2"}
	server, client = toolNamed("ib_send_bw").commands(&load, "7")
	require.Equal(t, []string{"ib_send_bw", "--port=7", "--size=64", "--iters=5000", "--CPU-freq",
		"--connection=UD", "--tx-depth=16", "--ib-dev=rxe0", "--ib-port=1", "--gid-index=3"},
		server)
	require.Equal(t, "10.1.0.2", client[len(client)-1], "the server's host is another one")

	load = Load{Provider: "tcp", InFlight: 64, Size: 4 << 20}
	_, client = perftest(&load, "7")
	require.Equal(t, []string{"ucx_perftest", "-p", "7", "127.0.0.1", "-t", "ucp_am_bw", "-s",
		"4194304", "-n", "100", "-w", "1000", "-f", "-v"}, client)

	load.Options = map[string]string{"sockets": "4"}
	_, client = iperf(&load, "7")
	require.Contains(t, strings.Join(client, " "), "--parallel 4")
	require.Equal(t, []string{"taskset", "-c", "3", "x"}, onCPU(3, []string{"x"}))
	require.Equal(t, []string{"env", "A=1", "B=2", "x"},
		within(map[string]string{"B": "2", "A": "1"}, []string{"x"}))
	for chosen, want := range map[string]string{"": "rc_x,self", "auto": "rc_x,self",
		"rc_mlx5": "rc_x,self", "rc,sm": "rc,sm"} {
		load := Load{Provider: "rc_mlx5", Options: map[string]string{"tls": chosen}}
		require.Equal(t, want, load.lanes(), "RC needs UD to set up its connections")
	}
	for _, c := range []struct {
		size, smaller int
		want          float64
	}{{8, 0, 2}, {4096, 64, 2}, {16384, 0, 1.25}, {16384, 16384, 2}} {
		load := Load{Size: c.size, Smaller: c.smaller}
		require.InDelta(t, c.want, load.messages(), 1e-9, "messages of a call with %d and %d bytes",
			c.size, c.smaller)
	}
	require.NoError(t, enough(transport.Floor{Samples: leastSamples}))
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
		"commands": func(r *Request) { r.Load.Options = map[string]string{"tls": "tcp; reboot"} },
		"lines": func(r *Request) {
			r.Load.Options = map[string]string{"net-devices": "eth0\nLD_PRELOAD=x"}
		},
		"substitute": func(r *Request) { r.Load.Provider = "$(reboot)" },
		"file":       func(r *Request) { r.Load.Daemon.Port = &transport.Path{Device: "/dev/sda"} },
		"GID": func(r *Request) {
			r.Load.Client.Port = &transport.Path{
				Facts: map[string]string{transport.FactGIDIndex: "-1 x"}}
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
