package rdmaperf

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options() Options {
	return Options{Device: rdma.Options{Provider: rdma.Soft}, Inline: 220, Postlist: 16, Depth: 128,
		Duration: time.Millisecond}
}

func TestEveryMeasurementHasAReading(t *testing.T) {
	var seen, readings []string
	require.NoError(t, Run(t.Context(), options(), func(string) bool { return true },
		func(r transport.Measurement) error {
			name, _, _ := strings.Cut(r.Name, "/")
			if len(seen) == 0 || seen[len(seen)-1] != name {
				seen = append(seen, name)
			}
			if refused := map[string]string{"relaxed-ordering/on": "not on a PCIe bus",
				"dc-write-latency": "the soft device has no",
				"dc-write-rate":    "the soft device has no"}[r.Name]; refused != "" {
				require.Contains(t, r.Note, refused)
				require.Zero(t, r.Samples, r.Name)
				return nil
			}
			require.Positive(t, r.Samples, r.Name)
			require.Positive(t, r.Latency+r.Rate, r.Name)
			require.Empty(t, r.Witness, "a witness of the soft device")
			if r.Baseline != "" {
				require.Contains(t, readings, r.Baseline, r.Name)
			}
			readings = append(readings, r.Name)
			return nil
		}))
	require.Equal(t, Names(), seen)
}

func TestEndsWithItsContext(t *testing.T) {
	o := options()
	o.Duration = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for _, name := range []string{"write-latency", "send-rate"} {
		err := Run(ctx, o, func(n string) bool { return n == name },
			func(transport.Measurement) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// The command lines are for perftest 6 (its --help), on a RoCE port.
func TestWitnesses(t *testing.T) {
	lines := map[string]string{}
	for _, b := range benchmarks() {
		b = b.complete(options())
		lines[fmt.Sprintf("%s %d", b.reading(), b.size)] = strings.Join(
			b.witness(rdma.Attributes{Name: "rxe0", Port: 1, Link: "Ethernet", GIDIndex: 1}), " ")
	}
	const on = " --ib-dev=rxe0 --ib-port=1 --iters=4992 --gid-index=1"
	for reading, want := range map[string]string{
		"write-latency 32": "ib_write_lat" + on + " --size=32 --inline_size=32",
		"ud-send-latency 32": "ib_send_lat" + on +
			" --size=32 --connection=UD --inline_size=32",
		"read-latency 32":        "ib_read_lat" + on + " --size=32",
		"compare-swap-latency 8": "ib_atomic_lat" + on + " --atomic_type=CMP_AND_SWAP",
		"fetch-add-rate 8": "ib_atomic_bw" + on +
			" --tx-depth=128 --qp=1 --cq-mod=1 --disable_pcie_relaxed",
		"write-rate-postlist 32": "ib_write_bw" + on + " --tx-depth=128 --qp=1 " +
			"--post_list=16 --disable_pcie_relaxed --size=32 --inline_size=32",
		"write-inline/off/latency 32": "ib_write_lat" + on + " --size=32 --inline_size=0",
		"write-signal/16 32": "ib_write_bw" + on +
			" --tx-depth=128 --qp=1 --cq-mod=16 --disable_pcie_relaxed --size=32 --inline_size=32",
		"write-pairs/8x256 32": "ib_write_bw --ib-dev=rxe0 --ib-port=1 --iters=576 " +
			"--gid-index=1 --tx-depth=256 --qp=8 --cq-mod=16 --disable_pcie_relaxed --size=32 " +
			"--inline_size=32",
		"dc-write-rate 32": "ib_write_bw" + on + " --tx-depth=128 --qp=1 --cq-mod=1 " +
			"--disable_pcie_relaxed --size=32 --connection=DC --inline_size=32",
		"relaxed-ordering/on 65536": "ib_write_bw --ib-dev=rxe0 --ib-port=1 --iters=256 " +
			"--gid-index=1 --tx-depth=128 --qp=1 --post_list=16 --size=65536 --inline_size=0",
	} {
		require.Equal(t, want, lines[reading], reading)
	}
}
