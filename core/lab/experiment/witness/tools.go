package witness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/transport"
)

// media are the benchmarks of media that many transports share. The transports themselves declare
// those of their libraries and devices.
var media = []transport.Reference{
	sockperf(transport.MediumUDP),
	sockperf(transport.MediumTCP, "--tcp"),
	{
		Tool: "iperf3", Package: "iperf3", Version: []string{"iperf3", "--version"}, Name: "iperf3",
		// A stream of bytes without messages compares with large messages only.
		Medium: transport.MediumTCP, Depth: transport.DepthAny, MinPayload: 64 << 10,
		Server: []string{"--server", "--one-off", "--port", "{port}"},
		Client: []string{"--client", "{address}", "--port", "{port}", "--parallel", "{streams}",
			"--time", "1", "--json"},
		Takes: 1040 * time.Millisecond,
		Reading: `"sum_received":\s*\{[^}]*?"bytes":\s*(?P<bytes>[0-9.e+]+)[^}]*?"bits_per_second":` +
			`\s*(?P<value>[0-9.e+]+)`,
		Quantity: transport.ByteRate, Unit: 1. / 8,
	},
}

// sockperf measures round trips over a kind of kernel sockets.
func sockperf(medium string, more ...string) transport.Reference {
	where := append([]string{"-i", "{address}", "-p", "{port}", "--nonblocked"}, more...)
	return transport.Reference{
		Tool: "sockperf", Package: "sockperf", Version: []string{"sockperf", "--version"},
		Name: "sockperf ping-pong",
		// Its header is the smallest message, and the largest is what a datagram holds.
		Medium: medium, Depth: transport.DepthOne, Pad: 14, MaxPayload: 65507,
		Server:   append([]string{"server"}, where...),
		Client:   append(append([]string{"ping-pong"}, where...), "-m", "{size}", "-t", "1"),
		Takes:    3300 * time.Millisecond,
		Reading:  `(?s)Total (?P<samples>\d+) observations.*percentile 50\.000 *= *(?P<value>[0-9.]+)`,
		Quantity: transport.HalfRoundTrip, Unit: 1000,
	}
}

// findTime is about how long it takes to find a tool and to print its version: the mean over the
// launches of the sweep peers, where it takes 20 ms (perftest) to 400 ms (fi_info).
const findTime = 140 * time.Millisecond

// measures reports whether a reference is for a load.
func measures(r *transport.Reference, l *Load) bool {
	several := l.InFlight > 1
	return r.Covers(l.Medium, l.Provider) &&
		(r.Depth == transport.DepthAny || several == (r.Depth == transport.DepthSeveral)) &&
		l.Size >= r.MinPayload && (r.MaxPayload == 0 || l.Size <= r.MaxPayload)
}

var versionText = regexp.MustCompile(`\d+(\.\d+)+`)

// readVersion returns the version that a tool prints, or "unknown".
func readVersion(ctx context.Context, r *transport.Reference) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	output, _ := exec.CommandContext(ctx, r.Version[0], r.Version[1:]...).CombinedOutput()
	if found := versionText.Find(output); found != nil {
		return string(found)
	}
	return "unknown"
}

// absent says that the tool is not installed.
func absent(r *transport.Reference) string {
	return fmt.Sprintf("%s is not installed: apt install %s", r.Tool, r.Package)
}

// lines returns the whole command lines of the server and of the client, which a user can repeat.
func lines(r *transport.Reference, l *Load, port int) (server, client []string) {
	line := func(end *End, arguments []string) []string {
		values := l.values(r, end, port)
		whole := append([]string{r.Tool}, fill(arguments, values)...)
		var environment []string
		for _, name := range slices.Sorted(maps.Keys(r.Environment)) {
			environment = append(environment, fill([]string{name + "=" + r.Environment[name]},
				values)...)
		}
		if len(environment) > 0 {
			whole = slices.Concat([]string{"env"}, environment, whole)
		}
		return onCPU(end.CPU, whole)
	}
	return line(&l.Daemon, r.Server), line(&l.Client, r.Client)
}

// values returns the values of the placeholders at one end.
func (l *Load) values(r *transport.Reference, end *End, port int) map[string]string {
	values := maps.Clone(end.Reference)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, map[string]string{
		"address": l.address(), "port": strconv.Itoa(port), "provider": l.Provider,
		"streams": cmp.Or(l.Streams, "1"),
		"size":    strconv.Itoa(max(l.Size, r.Pad)), "messages": l.rounds(),
		"in-flight": strconv.Itoa(l.InFlight),
	})
	return values
}

var placeholder = regexp.MustCompile(`\{[a-z0-9-]+\}`)

// fill replaces the placeholders in texts, and leaves out texts with a placeholder that has no
// value.
func fill(texts []string, values map[string]string) (filled []string) {
	for _, text := range texts {
		missing := false
		text = placeholder.ReplaceAllStringFunc(text, func(name string) string {
			value := values[strings.Trim(name, "{}")]
			missing = missing || value == ""
			return value
		})
		if !missing {
			filled = append(filled, text)
		}
	}
	return filled
}

// address returns the address of the server: on one host the transport's option, if that is one
// address.
func (l *Load) address() string {
	if l.Address != "" {
		return l.Address
	}
	if a, err := netip.ParseAddr(l.Bound); err == nil && !a.IsUnspecified() {
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
	if l.Medium == transport.MediumMemory {
		n = 20_000
	}
	return strconv.Itoa(max(100, n/max(1, l.Size/large)))
}

// read returns the reading in what the client of a tool printed.
func read(r *transport.Reference, l *Load, output []byte) (transport.Floor, error) {
	figure, found := r.Find(output)
	if !found {
		return transport.Floor{}, noReading(r.Tool, output)
	}
	f := transport.Floor{Name: r.Name, Samples: figure.Samples}
	switch r.Quantity {
	case transport.HalfRoundTrip:
		f.RoundTrip = 2 * figure.Value
	case transport.MessageRate:
		f.PerOp = l.messages() * 1e9 / figure.Value
	case transport.ByteRate:
		f.PerOp = float64(l.Size) * 1e9 / figure.Value
	}
	if f.Samples == 0 {
		f.Samples = max(1, int(figure.Bytes/float64(max(l.Size, 1))))
	}
	return f, nil
}

func noReading(name string, output []byte) error {
	line := lastLine(output)
	if line == "" {
		return errors.New(name + " printed nothing")
	}
	return fmt.Errorf("%s printed no reading: %s", name, line)
}
