package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/transport"
)

// tool is one benchmark.
type tool struct {
	name, pkg string   // the program, and Debian's package
	version   []string // the command that prints it
	measures  func(*Load) bool
	// commands returns the command lines of the server and of the client.
	commands    func(l *Load, port string) (server, client []string)
	environment func(*Load) map[string]string
	// finding and takes are about how long it takes to print the version, and one reading with the
	// start of both ends, as the committed results of v0.8.0 have them.
	finding, takes time.Duration
	reading        func(l *Load, output []byte) (transport.Floor, error)
}

// tools are the benchmarks; the first that measures a load is its witness.
var tools = []tool{
	{
		name: "ucx_perftest", pkg: "ucx-utils", version: []string{"ucx_info", "-v"},
		finding: 20 * time.Millisecond, takes: 120 * time.Millisecond,
		measures: func(l *Load) bool { return l.Transport == "ucxam" },
		commands: perftest,
		environment: func(l *Load) map[string]string {
			environment := map[string]string{"UCX_TLS": l.lanes()}
			if devices := l.Options["net-devices"]; devices != "" && devices != "auto" {
				environment["UCX_NET_DEVICES"] = devices
			}
			return environment
		},
		reading: perftestReading,
	},
	{
		name: "fi_pingpong", pkg: "libfabric-bin", version: []string{"fi_info", "--version"},
		finding: 400 * time.Millisecond, takes: 390 * time.Millisecond,
		measures:    func(l *Load) bool { return l.Transport == "ofi" && l.InFlight == 1 },
		commands:    pingpong,
		environment: func(*Load) map[string]string { return nil },
		reading:     pingpongReading,
	},
	ib("ib_write_lat", "copyrpc", perftestLatency),
	ib("ib_write_bw", "copyrpc", perftestRate),
	ib("ib_send_lat", "erpc", perftestLatency, "--connection=UD"),
	ib("ib_send_bw", "erpc", perftestRate, "--connection=UD"),
	{
		name: "sockperf", pkg: "sockperf", version: []string{"sockperf", "--version"},
		finding: 200 * time.Millisecond, takes: 3300 * time.Millisecond,
		measures: func(l *Load) bool {
			return (l.Medium == transport.MediumUDP || l.Medium == transport.MediumTCP) &&
				l.InFlight == 1 && l.Size <= sockperfMost
		},
		commands:    sockperf,
		environment: func(*Load) map[string]string { return nil },
		reading:     sockperfReading,
	},
	{
		name: "iperf3", pkg: "iperf3", version: []string{"iperf3", "--version"},
		finding: 20 * time.Millisecond, takes: 1040 * time.Millisecond,
		measures: func(l *Load) bool {
			return l.Medium == transport.MediumTCP &&
				l.Size >= iperfLeast
		},
		commands:    iperf,
		environment: func(*Load) map[string]string { return nil },
		reading:     iperfReading,
	},
}

var versionText = regexp.MustCompile(`\d+(\.\d+)+`)

// readVersion returns the version that a tool prints, or "unknown".
func (t *tool) readVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	output, _ := exec.CommandContext(ctx, t.version[0], t.version[1:]...).CombinedOutput()
	if found := versionText.Find(output); found != nil {
		return string(found)
	}
	return "unknown"
}

// lanes returns UCX's transports of the run: what the user chose, or the one of the lane for active
// messages with what sets up its connections.
func (l *Load) lanes() string {
	if chosen := l.Options["tls"]; chosen != "" && chosen != "auto" && chosen != l.Provider {
		return chosen
	}
	name := l.Provider
	switch name { // these names stand for the transport and UD for its wire-up
	case "rc_mlx5":
		name = "rc_x"
	case "rc_verbs":
		name = "rc_v"
	}
	return name + ",self"
}

// address returns the address of the server: on one host the transport's option, if that is one
// address.
func (l *Load) address() string {
	if l.Address != "" {
		return l.Address
	}
	if a, err := netip.ParseAddr(l.Options["address"]); err == nil && !a.IsUnspecified() {
		return a.String()
	}
	return "127.0.0.1"
}

// large is the size in bytes from which the copies of a message take longer than the rest.
const large = 4096

// messages returns how many messages of the larger size take as long as both of a call: a tool that
// sends one way measures one.
func (l *Load) messages() float64 {
	return 1 + float64(max(l.Smaller, large))/float64(max(l.Size, large))
}

// rounds returns how many messages take a fraction of a second.
func (l *Load) rounds() string {
	n := 5_000
	if l.Medium == transport.MediumMemory || l.Provider == "posix" || l.Provider == "sysv" ||
		l.Provider == "shm" {
		n = 20_000
	}
	return strconv.Itoa(max(100, n/max(1, l.Size/large)))
}

func perftest(l *Load, port string) (server, client []string) {
	server = []string{"ucx_perftest", "-p", port}
	test := "ucp_am_lat"
	if l.InFlight > 1 {
		test = "ucp_am_bw"
	}
	return server, append(server[:3:3], l.address(), "-t", test, "-s", strconv.Itoa(max(l.Size, 8)),
		"-n", l.rounds(), "-w", "1000", "-f", "-v")
}

// perftestLine is the last line of ucx_perftest -f -v: iterations, the median and two mean
// latencies in microseconds one way, two bandwidths, two message rates. A figure may be "inf".
var perftestLine = regexp.MustCompile(`(?m)^\d+(,[0-9.a-z]+){7}\s*$`)

func perftestReading(l *Load, output []byte) (transport.Floor, error) {
	lines := perftestLine.FindAllString(string(output), -1)
	if len(lines) == 0 {
		return transport.Floor{}, noReading("ucx_perftest", output)
	}
	fields := strings.Split(strings.TrimSpace(lines[len(lines)-1]), ",")
	samples, _ := strconv.Atoi(fields[0])
	if l.InFlight == 1 {
		return roundTrip("ucx_perftest ucp_am_lat", fields[1], 2000, samples)
	}
	rate, err := strconv.ParseFloat(fields[7], 64)
	if err != nil || !(rate > 0) {
		return transport.Floor{}, noReading("ucx_perftest", output)
	}
	return transport.Floor{Name: "ucx_perftest ucp_am_bw", PerOp: l.messages() * 1e9 / rate,
		Samples: samples}, nil
}

func pingpong(l *Load, port string) (server, client []string) {
	common := []string{"fi_pingpong", "-p", l.Provider, "-e", "rdm", "-I", l.rounds(), "-S",
		strconv.Itoa(max(l.Size, 1))}
	return append(common[:len(common):len(common)], "-B", port),
		append(common[:len(common):len(common)], "-P", port, l.address())
}

// pingpongReading reads the columns bytes, #sent, #ack, total, time, MB/sec, usec/xfer and
// Mxfers/sec. The seventh is half a round trip.
func pingpongReading(l *Load, output []byte) (transport.Floor, error) {
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) == 8 &&
			strings.Trim(fields[7], "0123456789.") == "" {
			samples, _ := strconv.Atoi(l.rounds())
			return roundTrip("fi_pingpong", fields[6], 2000, samples)
		}
	}
	return transport.Floor{}, noReading("fi_pingpong", output)
}

const ibRounds = 5000

// ib is a program of perftest for a transport over verbs: for one call in flight if it prints
// latencies, else for several.
func ib(name, of string, reading func(name string, output []byte) (transport.Floor, error),
	more ...string) tool {
	several := strings.HasSuffix(name, "_bw")
	return tool{
		name: name, pkg: "perftest", version: []string{name, "--version"},
		finding: 20 * time.Millisecond, takes: 300 * time.Millisecond,
		measures: func(l *Load) bool {
			return l.Medium == transport.MediumVerbs && l.Transport == of &&
				several == (l.InFlight > 1)
		},
		commands: func(l *Load, port string) (server, client []string) {
			server = append([]string{name, "--port=" + port,
				"--size=" + strconv.Itoa(max(l.Size, 2)), "--iters=" + strconv.Itoa(ibRounds),
				"--CPU-freq"}, more...)
			if several {
				server = append(server, "--tx-depth="+strconv.Itoa(l.InFlight))
			}
			client = append(slices.Clone(server), l.Client.ibPort()...)
			return append(server, l.Daemon.ibPort()...), append(client, l.address())
		},
		environment: func(*Load) map[string]string { return nil },
		reading: func(l *Load, output []byte) (transport.Floor, error) {
			f, err := reading(name, output)
			f.RoundTrip *= 2 // a latency is that of one way, and so is a rate
			f.PerOp *= l.messages()
			return f, err
		},
	}
}

// ibPort returns the arguments that choose the device, port and GID that the transport opened.
// Without a GID's index, perftest leaves out the header that only packets over Ethernet have.
func (e *End) ibPort() (arguments []string) {
	if e.Port == nil {
		return nil
	}
	arguments = []string{"--ib-dev=" + e.Port.Device, "--ib-port=" + strconv.Itoa(e.Port.Port)}
	if index, has := e.Port.Facts[transport.FactGIDIndex]; has &&
		e.Port.Facts[transport.FactLinkLayer] == transport.LinkEthernet {
		arguments = append(arguments, "--gid-index="+index)
	}
	return arguments
}

// The messages of sockperf, in bytes: its header, and what fits a datagram.
const (
	sockperfLeast = 14
	sockperfMost  = 65507
)

func sockperf(l *Load, port string) (server, client []string) {
	where := []string{"-i", l.address(), "-p", port, "--nonblocked"}
	if l.Medium == transport.MediumTCP {
		where = append(where, "--tcp")
	}
	server = append([]string{"sockperf", "server"}, where...)
	return server, append(append([]string{"sockperf", "ping-pong"}, where...), "-m",
		strconv.Itoa(max(l.Size, sockperfLeast)), "-t", "1")
}

var (
	// half a round trip, in microseconds
	sockperfMedian = regexp.MustCompile(`percentile 50\.000 *= *([0-9.]+)`)
	sockperfCount  = regexp.MustCompile(`Total (\d+) observations`)
)

func sockperfReading(_ *Load, output []byte) (transport.Floor, error) {
	median, count := sockperfMedian.FindSubmatch(output), sockperfCount.FindSubmatch(output)
	if median == nil || count == nil {
		return transport.Floor{}, noReading("sockperf", output)
	}
	samples, _ := strconv.Atoi(string(count[1]))
	return roundTrip("sockperf ping-pong", string(median[1]), 2000, samples)
}

// iperfLeast is the smallest payload that compares with a stream of bytes without messages.
const iperfLeast = 64 << 10

func iperf(l *Load, port string) (server, client []string) {
	streams := "1"
	if n := l.Options["sockets"]; n != "" {
		streams = n
	}
	return []string{"iperf3", "--server", "--one-off", "--port", port},
		[]string{"iperf3", "--client", l.address(), "--port", port, "--parallel", streams, "--time",
			"1", "--json"}
}

func iperfReading(l *Load, output []byte) (transport.Floor, error) {
	var report struct {
		End struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
				Bytes         float64 `json:"bytes"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(output, &report); err != nil {
		return transport.Floor{}, fmt.Errorf("iperf3: %w", err)
	}
	received := report.End.Received
	if !(received.BitsPerSecond > 0) {
		return transport.Floor{}, noReading("iperf3", output)
	}
	size := float64(l.Size)
	return transport.Floor{Name: "iperf3", PerOp: size / (received.BitsPerSecond / 8) * 1e9,
		Samples: max(1, int(received.Bytes/size))}, nil
}

// roundTrip returns a reading of half a round trip in a unit of so many nanoseconds for both
// halves.
func roundTrip(name, half string, factor float64, samples int) (transport.Floor, error) {
	value, err := strconv.ParseFloat(half, 64)
	if err != nil || !(value > 0) {
		return transport.Floor{}, fmt.Errorf("%s: %q is no time", name, half)
	}
	return transport.Floor{Name: name, RoundTrip: factor * value, Samples: samples}, nil
}

func noReading(name string, output []byte) error {
	line := lastLine(output)
	if line == "" {
		return errors.New(name + " printed nothing")
	}
	return fmt.Errorf("%s printed no reading: %s", name, line)
}
