package inbox

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole:  fabrictest.Echo(testDriver{}),
		fabrictest.StepsRole: fabrictest.Steps(testDriver{})}) {
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

// connect opens two transports with one worker each, connected to each other as peer 0.
func connect(cfg Config) (a, b *worker, closeBoth func(), err error) {
	workers := make([]*worker, 2)
	var transports []*Transport
	for i := range workers {
		tr, err := Open(cfg)
		if err != nil {
			return nil, nil, nil, err
		}
		transports = append(transports, tr)
		w, err := tr.NewWorker(0)
		if err != nil {
			return nil, nil, nil, err
		}
		workers[i] = w.(*worker)
	}
	a, b = workers[0], workers[1]
	err = errors.Join(a.Connect(context.Background(), 0, b.Address()),
		b.Connect(context.Background(), 0, a.Address()))
	return a, b, func() { _ = errors.Join(transports[0].Close(), transports[1].Close()) }, err
}

// connected is connect with a change to testConfig. The transports are closed with the test.
func connected(t testing.TB, change func(*Config)) (a, b *worker) {
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	a, b, closeBoth, err := connect(cfg)
	require.NoError(t, err)
	t.Cleanup(closeBoth)
	return a, b
}

func withRing(name string) func(*Config) { return func(c *Config) { c.Ring = name } }
