package conn

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// Names of the options of tests that are not sizes.
const (
	stripeRoundRobin  = "round-robin"
	stripeLeastLoaded = "least-loaded"
	zeroCopyOff       = "off"
	zeroCopyOn        = "on"
)

// testOptions are options of the transport that tests of a connection set.
type testOptions struct {
	config   Config
	zeroCopy bool
	workers  int
	sockets  sock.Options
}

// parse reads options as users write them.
func parse(tb testing.TB, raw map[string]string) *testOptions {
	tb.Helper()
	o := &testOptions{sockets: sock.Options{Address: netip.MustParseAddr("127.0.0.1"),
		Congestion: sock.DefaultCongestion(), Timeout: 10 * time.Second},
		config: Config{Chunk: 512 << 10, Lanes: 1, SendWindow: 12, ReceiveWindow: Requests,
			Unpack:      true,
			SendControl: sock.SendBytes}}
	size := transport.Option{Type: transport.TypeSize}
	for name, value := range raw {
		number := func() int {
			option := size
			option.Name, option.Default, option.Max = name, "0", 1<<30
			values, err := transport.ParseOptions([]transport.Option{option},
				map[string]string{name: value})
			require.NoError(tb, err)
			return values.Size(name)
		}
		switch name {
		case "chunk":
			o.config.Chunk = number()
		case "request":
			o.config.Request = number()
		case "sockets":
			o.config.Lanes = number()
		case "threads":
			o.config.Threads = number()
		case "send-window":
			o.config.SendWindow = number()
		case "receive-window":
			o.config.ReceiveWindow = number()
		case "unpack-workers":
			o.workers = number()
		case "socket-buffer":
			o.sockets.Buffer = number()
		case "striping":
			o.config.LeastLoaded = value == stripeLeastLoaded
		case "zero-copy":
			o.zeroCopy = value == zeroCopyOn
		case "timeout":
			timeout, err := time.ParseDuration(value)
			require.NoError(tb, err)
			o.sockets.Timeout = timeout
		default:
			require.FailNow(tb, "unknown option", name)
		}
	}
	if o.config.Request == 0 {
		o.config.Request = o.config.Chunk
	}
	o.config.Fragments = o.config.Request / pageSize
	return o
}

func newTestSides(tb testing.TB, options map[string]string, size int) (a, b *Side, err error) {
	o := parse(tb, options)
	newMemory := func() (bounce.Allocator, *bounce.Slots, error) {
		memory, err := bounce.NewPages(o.config.Request, 1)
		if err != nil {
			return nil, nil, err
		}
		unpacker, err := bounce.NewSlots(memory, bounce.NewHost(o.workers))
		return memory, unpacker, err
	}
	return NewSides(&o.config, &o.sockets, o.zeroCopy, size, newMemory)
}

// fill writes bytes that depend on seed.
func fill(b []byte, seed uint64) { copy(b, random(seed, len(b))) }
