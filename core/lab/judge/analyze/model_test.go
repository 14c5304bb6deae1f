package analyze

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

func model() *Model {
	return &Model{Clients: 1, Daemons: 1, InFlight: 1, CallingRanks: 1, ServingRanks: 1,
		Transported: 0.5, RemoteShare: 0.5,
		ClientTime: 100, DaemonTime: 400, Delay: 1500, RoundTrip: 1000, Local: 1000, Remote: 3000,
		Measured: 0.5e6}
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

	parked := analysed(t, func(r *result.Result) {
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) { c.Thread.CPUNS /= 4 })
	}).Model
	near(t, 230, parked.ClientTime,
		"a quarter of a second without 200,000 empty polls, for a million operations")

	one := analysed(t, func(r *result.Result) {
		r.Config.InFlight = 1
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
			c.Reads, c.Writes = 100_000,
				100_000
		})
	}).Model
	require.Equal(t, 100.0, one.ClientTime, "what its loop takes")
	near(t, 4600, one.DaemonTime)
	// of the 5 us that an operation takes; a bin of 4.6 us is 5 ns wide
	require.InEpsilon(t, 300, one.Delay, 0.02)
}
