package findings

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
)

func estimate(value, low, high float64) calibration.Estimate {
	return calibration.Estimate{Value: value, Low: &low, High: &high}
}

func trials(known float64, found, count, wrong int, low, high float64) calibration.Trials {
	return calibration.Trials{Known: known, Count: count, Found: found, Wrong: wrong,
		Share: estimate(float64(found)/float64(count), low, high)}
}

func calibration1() *calibration.Document {
	return &calibration.Document{
		StartedAt: time.Date(2026, 11, 22, 14, 30, 0, 0, time.UTC), TookS: 3723, Alpha: 0.05,
		Tool: result.Tool{Version: "0.5.0"},
		Environment: machine.Environment{Identity: machine.Identity{CPU: "AMD EPYC", Cores: 2,
			Virtualisation: "kvm"}},
		Recovery: []calibration.Recovery{
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 20,
				Measured: estimate(24, -12, 60), Windows: 100},
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 200,
				Measured: estimate(207, 200, 214), Windows: 100, Tolerance: 10, Within: true},
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 500,
				Measured: estimate(501, 401, 601), Windows: 100, Tolerance: 15},
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 10e6,
				Measured: estimate(10.4e6, 10.39e6, 10.41e6), Windows: 20, Tolerance: 300e3},
			{Quantity: "rate", Unit: "op/s", Known: 100_000,
				Measured: estimate(99_990, 99_980, 100_001), Windows: 10, Tolerance: 1000,
				Within: true},
			{Quantity: "stall: p99, closed loop", Unit: "ns", Known: 375,
				Measured: estimate(380, 370, 385), Windows: 6, Tolerance: 11.25, Within: true},
			{Quantity: "stall: max, open loop", Unit: "ns", Known: 74e6,
				Measured: calibration.Estimate{Value: 74.02e6}, Windows: 1, Tolerance: 2.22e6},
			{Quantity: "added time, loaded", Unit: "share", Known: 0.0496,
				Measured: estimate(0.051, 0.021, 0.083), Windows: 200},
		},
		Observer: []calibration.Observer{
			{SampleEvery: 1, InFlight: 1, Change: estimate(-0.123, -0.15, -0.1), Windows: 40},
			{SampleEvery: 1024, InFlight: 1, Change: estimate(0.001, -0.01, 0.012), Windows: 40},
		},
		Resolution: calibration.Resolution{Repeats: 10, Delay: 100, FoundShare: 0.9,
			Trials: []calibration.Trials{
				trials(10, 1, 10, 0, 0.0025, 0.445), trials(100, 10, 10, 0, 0.6915, 1),
			}},
		FalseVerdicts: []calibration.FalseVerdicts{
			{Method: "diff", Repeats: 10, Comparisons: 200, Tests: 3, False: 7, Beyond: 6,
				Share: estimate(0.035, 0.0142, 0.0708), Within: true},
			{Method: "along", Repeats: 10, Comparisons: 200, Tests: 9, False: 30, Beyond: 9,
				Share: estimate(0.15, 0.1036, 0.2072)},
			{Method: "ab", Repeats: 10, Comparisons: 6, Tests: 3, Share: estimate(0, 0, 0.4593)},
		},
		Power: []calibration.Power{
			{Load: "echo, 1 in flight", Class: "memory", Repeats: 10,
				Trials: []calibration.Trials{trials(0.0496, 31, 60, 1, 0.3839, 0.6477)}},
			{Load: "echo, 1 in flight", Class: "memory", Repeats: 20, Trials: []calibration.Trials{
				trials(0.0104, 3, 30, 0, 0.0211, 0.2653), trials(0.0496, 29, 30, 0, 0.8278, 0.9992),
				trials(0.1, 30, 30, 0, 0.8843, 1),
			}},
			{Load: "echo, 1 in flight", Class: "memory", Loaded: true, Repeats: 20,
				Trials: []calibration.Trials{trials(0.0496, 2, 10, 0, 0.0252, 0.5561)}},
		},
	}
}

func TestCalibration(t *testing.T) {
	var out bytes.Buffer
	write(&out, Calibration(calibration1()))
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(line, "- ") { // of the summary
			continue
		}
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100, out.String())
	}
	doctest.Golden(t, "calibration.txt", out.String())

	out.Reset()
	writeMarkdown(&out, Calibration(calibration1()))
	doctest.Golden(t, "calibration.md", out.String())
}

func TestCalibrationWithoutConclusions(t *testing.T) {
	d := calibration1()
	d.Quick, d.TookS = true, 95
	d.Recovery, d.Observer, d.FalseVerdicts, d.Power, d.Resolution = nil, nil, nil, nil,
		calibration.Resolution{}
	var out bytes.Buffer
	write(&out, Calibration(d))
	require.Equal(t, `Calibration of AMD EPYC, 2 cores, a virtual machine (kvm)
2026-11-22 14:30 UTC, transportbench 0.5.0, quick, too short to bound rates and power, took 1m35s
`, out.String())
}

func TestDiscardedLaunchesAreShown(t *testing.T) {
	d := calibration1()
	d.Experiments = []calibration.Experiment{{Name: "delay", Discarded: []int{0, 2, 1}},
		{Name: "stall"}, {Name: "rate", Discarded: []int{1}}}
	var out bytes.Buffer
	write(&out, Calibration(d))
	require.Contains(t, out.String(), "\n\nMade again: process starts that failed, by cell of an "+
		"experiment\n- delay: 0 2 1\n- rate: 1\n\n")
}
