package inbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(testDriver{})}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// testConfig returns a Config for two workers with four calls in flight.
func testConfig() Config {
	return Config{
		Name: "inbox", Ring: Auto, Backing: shm.Memfd, HotRings: 4,
		Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 4096,
	}
}

// connected returns two workers of this process, connected to each other as peer 0.
func connected(t testing.TB, change func(*Config)) (a, b *worker) {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	workers := make([]*worker, 2)
	for i := range workers {
		tr, err := Open(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(t, err)
		workers[i] = w.(*worker)
	}
	require.NoError(t, workers[0].Connect(t.Context(), 0, workers[1].Address()))
	require.NoError(t, workers[1].Connect(t.Context(), 0, workers[0].Address()))
	return workers[0], workers[1]
}

func withRing(name string) func(*Config) { return func(c *Config) { c.Ring = name } }
