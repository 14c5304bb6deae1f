package analyze

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

func TestNetworkByHand(t *testing.T) {
	solve := func(n network) float64 {
		x, time := n.solve()
		require.InEpsilon(t, float64(n.calls), x*time, 1e-9, "Little's law")
		return x
	}
	// One call never waits.
	require.InEpsilon(t, 1.0/3000, solve(network{calls: 1, clients: 1, daemons: 1, client: 500, daemon: 1000, delay: 1500}), 1e-9)
	// Balanced stations: n/(n+k-1) over the demand of one, with k stations.
	require.InEpsilon(t, 2.0/3, solve(network{calls: 2, clients: 1, daemons: 1, client: 1, daemon: 1}), 1e-9)
	require.InEpsilon(t, 5.0/8, solve(network{calls: 5, clients: 2, daemons: 2, client: 2, daemon: 2}), 1e-9)
	// A machine repairman: 3 calls, 10 elsewhere, 1 at the daemon. R(1)=1, X=1/11, Q=1/11;
	// R(2)=12/11, X=2/(10+12/11)=22/122; Q=24/122; R(3)=146/122, X=3/(10+146/122).
	require.InEpsilon(t, 3/(10+146.0/122), solve(network{calls: 3, clients: 1, daemons: 1, daemon: 1, delay: 10}), 1e-9)
	// Many calls are limited by the slowest station.
	require.InEpsilon(t, 1.0/400, solve(network{calls: 1000, clients: 1, daemons: 1, client: 100, daemon: 400, delay: 5000}), 1e-3)
}

func TestCalibration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := network{
			calls: rapid.IntRange(1, 64).Draw(t, "calls"), clients: rapid.IntRange(1, 4).Draw(t, "clients"), daemons: rapid.IntRange(1, 2).Draw(t, "daemons"),
			client: rapid.Float64Range(1, 1000).Draw(t, "client"), daemon: rapid.Float64Range(1, 1000).Draw(t, "daemon"),
			delay: rapid.Float64Range(100, 10000).Draw(t, "delay"),
		}
		x, _ := n.solve()
		again, _ := n.calibrated(x).solve()
		require.InEpsilon(t, x, again, 1e-6)
	})
	// Even without delay it is slower than measured.
	require.Zero(t, network{calls: 1, clients: 1, daemons: 1, client: 100, daemon: 100}.calibrated(1).delay)
}

func model() *Model {
	return &Model{Clients: 1, Daemons: 1, InFlight: 1, CallingRanks: 1, ServingRanks: 1, Transported: 0.5, RemoteShare: 0.5,
		ClientTime: 100, DaemonTime: 400, Delay: 1500, RoundTrip: 1000, Local: 1000, Remote: 3000, Measured: 0.5e6}
}

func TestPredictByHand(t *testing.T) {
	for change, want := range map[string]float64{
		"clients=1":           0.5e6,
		"rtt=3us":             1e9 / 3000.0, // half of the requests take 2 us longer
		"rtt=1ns":             1e9 / (2000 - 0.5*999),
		"remote_share=1":      1e9 / 3000.0, // as remote ones are now
		"remote-share=0":      1e9 / 1000.0,
		"daemon=900ns":        1e9 / 2500.0,
		"client=600ns":        1e9 / 2500.0,
		"burn=1us":            1e9 / 3000.0,
		"burn=1us, rtt=3us":   1e9 / 4000.0,
		"in_flight=100000":    1e9 / 400.0, // the daemon
		"clients=50":          1e9 / 400.0,
		"clients=50,daemon=1": 0,
	} {
		p, err := model().Predict(change)
		if want == 0 {
			require.Error(t, err, change)
			continue
		}
		require.NoError(t, err, change)
		require.InEpsilon(t, want, p.Throughput, 0.01, change)
		require.Equal(t, 0.5e6, p.Measured)
		require.Contains(t, p.Message, "500 K op/s")
	}
}

// A prediction has the same relative error as the model of the measured configuration.
func TestPredictionIsScaled(t *testing.T) {
	m := model()
	m.Measured = 1e6 // twice what the model predicts
	p, err := m.Predict("rtt=3us")
	require.NoError(t, err)
	require.InEpsilon(t, 2e9/3000, p.Throughput, 1e-9)
	require.InEpsilon(t, 1500, p.Latency, 1e-9)
}

func TestPredictKnowsProcessors(t *testing.T) {
	m := model()
	m.Processors, m.CPUPerOp = 2, 2000 // 1 M op/s
	p, err := m.Predict("clients=16")
	require.NoError(t, err)
	require.InEpsilon(t, 1e6, p.Throughput, 1e-9)
	require.Contains(t, p.Message, "limited by 2 processors")
}

func TestPredictReportsLostProcessors(t *testing.T) {
	m := model()
	m.Running = 0.4
	p, err := m.Predict("clients=16")
	require.NoError(t, err)
	require.Contains(t, p.Message, "a processor only 40% of the time")
}

func TestPredictRefuses(t *testing.T) {
	for change, want := range map[string]string{
		"":                               "not of the form",
		"clients":                        "not of the form",
		"client_s=3":                     "did you mean",
		"clients=0":                      "out of range (1 to",
		"clients=x":                      "out of range (1 to",
		"rtt=5":                          "not a time",
		"rtt=-2us":                       "not a time",
		"remote_share=2":                 "share from 0 to 1",
		"clients=100000,in_flight=10000": "out of range",
	} {
		_, err := model().Predict(change)
		require.ErrorContains(t, err, want, change)
	}
	m := model()
	m.RoundTrip, m.Remote = 0, 0
	_, err := m.Predict("rtt=2us")
	require.ErrorContains(t, err, "no floor")
	_, err = m.Predict("remote_share=1")
	require.ErrorContains(t, err, "both local and remote")
}

func FuzzPredict(f *testing.F) {
	f.Add("rtt=2us,clients=16")
	f.Add("remote_share=0.5,burn=1us,daemons=4")
	f.Fuzz(func(t *testing.T, change string) {
		m := model()
		m.InFlight = 1
		p, err := m.Predict(change)
		if err == nil {
			require.Positive(t, p.Throughput)
		}
	})
}

// Without a change, the model of a result predicts what was measured.
func TestModelOfAResult(t *testing.T) {
	m := analysed(t, nil).Model
	near(t, 920, m.DaemonTime)
	near(t, 980, m.ClientTime) // busy 98% of the time, with several calls in flight
	near(t, 1000, m.Delay, "the floor: a client that is busy all the time hides the delay")
	near(t, 1000, m.RoundTrip)
	near(t, 1e6, m.Measured)
	p, err := m.Predict("clients=1")
	require.NoError(t, err)
	near(t, 1e6, p.Throughput)
	require.Nil(t, analysed(t, func(r *result.Result) { r.Config.Rate = config.Rate(1e6) }).Model)

	one := analysed(t, func(r *result.Result) {
		r.Config.InFlight = 1
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) { c.Reads, c.Writes = 100_000, 100_000 })
	}).Model
	require.Equal(t, 100.0, one.ClientTime, "what its loop takes")
	near(t, 4600, one.DaemonTime)
	require.InEpsilon(t, 300, one.Delay, 0.02) // of the 5 us that an operation takes; a bin of 4.6 us is 5 ns wide
}
