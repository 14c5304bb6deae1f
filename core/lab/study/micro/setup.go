package micro

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Phase is one phase of setups that were made again and again.
type Phase struct {
	Connections int    `json:"connections"`
	Metric      string `json:"metric"`
	Unit        string `json:"unit"`
	// Median, Low and High are over the rounds, with a 95% interval of the median.
	Median float64  `json:"median"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	// Trend is that of the values without the first tenth of the rounds, in which the process warms
	// up; absent if there are too few.
	Trend *Trend `json:"trend,omitempty"`
	// Values has one value for each round, in order.
	Values []float64 `json:"values"`
}

func newPhase(connections int, metric, unit string, values []float64) Phase {
	m := result.Summarize(metric, values)
	return Phase{Connections: connections, Metric: metric, Unit: unit, Median: m.Median, Low: m.Low,
		High: m.High, Values: values, Trend: newTrend(values[len(values)/10:])}
}

// phaseKinds are the phases of a round.
var phaseKinds = []struct {
	metric, unit string
	of           func(*record.SetupReading) float64
}{
	{result.SetupOpen, "ns", func(r *record.SetupReading) float64 {
		return float64(r.OpenNS + r.WorkersNS)
	}},
	{result.SetupRegister, "ns/MiB", func(r *record.SetupReading) float64 {
		return float64(r.RegisterNS) / float64(max(r.RegisteredBytes, 1)) * (1 << 20)
	}},
	{result.SetupConnect, "ns", func(r *record.SetupReading) float64 {
		return float64(r.ConnectNS) /
			float64(max(r.Connections, 1))
	}},
	{result.SetupConnectAll, "ns", func(r *record.SetupReading) float64 {
		return float64(r.ConnectAllNS)
	}},
	{result.FirstCall, "ns", func(r *record.SetupReading) float64 {
		return float64(r.FirstCallNS)
	}},
	{result.Teardown, "ns", func(r *record.SetupReading) float64 { return float64(r.CloseNS) }},
}

// Phases divides rounds of setups into the series of their phases, by the number of connections.
func Phases(rounds []*record.SetupReading) (phases []Phase) {
	for len(rounds) > 0 {
		n := rounds[0].Connections
		end := slices.IndexFunc(rounds, func(r *record.SetupReading) bool {
			return r.Connections != n
		})
		if end < 0 {
			end = len(rounds)
		}
		for _, kind := range phaseKinds {
			var values []float64
			for _, r := range rounds[:end] {
				if v := kind.of(r); v > 0 {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				phases = append(phases, newPhase(int(n), kind.metric, kind.unit, values))
			}
		}
		rounds = rounds[end:]
	}
	return phases
}

// addSetups adds the medians of rounds to the set.
func (s *Study) addSetups(rounds []*record.SetupReading, environment machine.Environment) error {
	// the medians of the metrics, by the number of connections
	setups := map[int]map[string]float64{}
	for _, p := range Phases(rounds) {
		if setups[p.Connections] == nil {
			setups[p.Connections] = map[string]float64{}
		}
		setups[p.Connections][p.Metric] = p.Median
	}
	for _, n := range slices.Sorted(maps.Keys(setups)) {
		options := map[string]string{set.MicroOption: record.MicroSetup,
			"connections": strconv.Itoa(n)}
		if err := s.set.AddReading(s.like, environment, options,
			set.WithoutZeros(setups[n])); err != nil {
			return err
		}
	}
	return nil
}

// The load of a setup between hosts. Its first calls are made at the start of the warm-up.
const (
	setupWarmup = "50ms"
	setupWindow = "10ms"
)

// takeBetween takes the rounds of each number of connections between two hosts, as the plugin does
// on one.
func (s *Study) takeBetween(ctx context.Context) error {
	l, err := s.Plugin.Launcher(s.Engine.Log, s.Engine.AllowMixed)
	if err != nil {
		return err
	}
	defer func(beside experiment.Beside) { s.Engine.Beside = beside }(s.Engine.Beside)
	// the rest is of windows, which are not read
	s.Engine.Beside = experiment.Beside{StateOnly: true}
	before := len(s.Rounds)
	for _, n := range s.Request.Connections {
		cfg, err := s.between(n)
		if err != nil {
			return err
		}
		began := time.Now()
		for round := 0; round < record.MinSetups || round < record.MaxSetups &&
			time.Since(began) < s.Request.Duration; round++ {
			r, err := s.Engine.Run(ctx, experiment.Run{Plugin: s.Plugin, Config: cfg, Launcher: l},
				nil)
			if err != nil {
				return fmt.Errorf("%s: round %d with %d connections: %w", record.MicroSetup,
					round+1, n, err)
			}
			if len(r.Setup.Ranks) != cfg.Ranks {
				return fmt.Errorf("plugin %s does not say what its setup takes",
					s.Plugin.Identity.Name)
			}
			s.Rounds = append(s.Rounds, &record.SetupReading{RankSetup: r.Setup.Ranks[1],
				CloseNS: uint64(r.Setup.CloseMS * float64(time.Millisecond))})
		}
	}
	if s.set == nil {
		return nil
	}
	return s.addSetups(s.Rounds[before:], s.Engine.Environment)
}

// between returns the load of a round: the second rank calls the first one, with that many
// connections.
func (s *Study) between(connections int) (config.Config, error) {
	servers, clients := record.SetupGrid(connections)
	if clients > config.MaxThreads {
		return config.Config{}, &config.Error{Option: "connections",
			Problem: fmt.Sprintf("%d between hosts take %d threads, and a rank has %d at most; "+
				"choose a number such as 100 = 10 x 10",
				connections, clients, config.MaxThreads)}
	}
	cfg, _, err := config.Resolve(config.Layer{Values: map[string]string{
		"profile": "echo", "ranks": "2", "daemons": strconv.Itoa(servers),
		"clients":    strconv.Itoa(clients),
		"value-size": strconv.Itoa(record.SetupPayload), "warmup": setupWarmup,
		"duration": setupWindow, "repeats": "1",
		"idle": config.IdleYield, // many connections take more threads than processors
	}})
	cfg.Transport, cfg.Options = s.Plugin.Identity.Name, s.Own
	return cfg, err
}
