package ofi

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(Driver{})}) {
		return
	}
	os.Exit(run(m))
}

// run runs the tests with a directory of shared memory, like a rank's: killed processes leave
// files.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp(shm.NamedDir, "ofi-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for name, value := range map[string]string{
		shm.EnvDir: dir,
		// A worker of ofi_rxm has a thousand buffers of this size, 16 KiB by default, which it
		// fills with zeros.
		"FI_OFI_RXM_BUFFER_SIZE": "2048", "FI_OFI_RXM_EAGER_LIMIT": "2048",
		// It looks for connections so often, in microseconds, 10000 by default.
		"FI_OFI_RXM_CM_PROGRESS_INTERVAL": "100",
	} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience is the time limit of a clause. Some clauses make a hundred workers.
const patience = time.Minute

// releaseWorkers ends an endpoint without telling its peers.
func releaseWorkers(t transport.Transport) {
	e := t.(*endpoint)
	_ = e.workers.Close(e.release)
}

func conform(t *testing.T, options map[string]string) {
	t.Helper()
	needLibrary(t)
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: options,
		Kill: releaseWorkers})
}

// TestConformance runs the suite over shm, and what differs over tcp.
func TestConformance(t *testing.T) {
	t.Run("shm", func(t *testing.T) { conform(t, map[string]string{optionProvider: "shm"}) })
	t.Run("tcp", func(t *testing.T) {
		runClauses(t, map[string]string{optionProvider: "tcp"}, shortClauses)
	})
}

// TestWholeSuite runs all of the suite over tcp.
func TestWholeSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("short mode: TestConformance runs what differs from shm")
	}
	conform(t, map[string]string{optionProvider: "tcp"})
}

// shortClauses are about what differs between providers: connections, all sizes of messages,
// back-pressure, and above all losses and closing.
var shortClauses = []string{
	"connect/call-before-peer", "connect/late", "echo/sizes", "echo/batch", "flow/back-pressure",
	"flow/credits", "poll/request-lifetime",
	"call/both-sides", "peers/lost-by-worker-close", "peers/lost-by-transport-close",
	"peers/lost-by-death", "peers/each-lost",
	"peers/lost-comes-last", "peers/lost-in-flight", "peers/post-to-lost", "peers/others-go-on",
	"close/in-flight", "close/one-worker",
	"close/descriptors",
}

// TestProviderConformance runs the suite over the provider of OFI_TEST_PROVIDER, such as udp, efa
// or cxi.
func TestProviderConformance(t *testing.T) {
	provider := os.Getenv("OFI_TEST_PROVIDER")
	if provider == "" {
		t.Skip("OFI_TEST_PROVIDER names no provider of libfabric")
	}
	conform(t, map[string]string{optionProvider: provider,
		optionDomain: os.Getenv("OFI_TEST_DOMAIN")})
}

// TestConformanceWakeUp runs what is about waiting, over the provider that has descriptors.
func TestConformanceWakeUp(t *testing.T) {
	runClauses(t, map[string]string{optionProvider: "tcp", optionWakeUp: "true"}, []string{
		"wait/timeout", "wait/blocks", "wait/arrival-before", "wait/arrival-during",
		"wait/wake-before", "wait/wake-during", "wait/peer-lost", "call/once",
	})
}

// runClauses runs some clauses of the suite.
func runClauses(t *testing.T, options map[string]string, clauses []string) {
	t.Helper()
	needLibrary(t)
	suite := transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: options,
		Kill: releaseWorkers}
	for _, clause := range clauses {
		t.Run(clause, func(t *testing.T) {
			failed, report, err := transporttest.RunClause(suite, clause)
			require.NoError(t, err)
			require.False(t, failed, report)
		})
	}
}
