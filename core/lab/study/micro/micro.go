package micro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// Study takes readings of the microbenchmarks of a plugin.
type Study struct {
	Engine  *experiment.Engine
	Plugin  *experiment.Plugin
	Request record.MicroRequest
	// Own has the transport's options for a setup between hosts, complete.
	Own map[string]string

	// Readings are those of all repeats, and Rounds those of [record.MicroSetup].
	Readings []transport.Measurement
	Rounds   []*record.SetupReading

	set  *set.Set // nil unless Keep was called
	like set.Cell // what all cells of set have in common
}

// Store takes readings of a transport so many times and stores them as a file of the engine's
// directory.
func Store(ctx context.Context, e *experiment.Engine, transport string, request record.MicroRequest,
	repeats int, file string) error {
	p, err := e.Find(ctx, transport)
	if err != nil {
		return err
	}
	s := &Study{Engine: e, Plugin: p, Request: request}
	s.Keep("")
	if err := s.Run(ctx, repeats); err != nil {
		return err
	}
	_, err = s.Write(file)
	return err
}

// Keep makes Write possible. cpus are the processors as the user named them, or "".
func (s *Study) Keep(cpus string) {
	tool := experiment.Tool()
	p := &s.Plugin.Identity
	s.set = set.New()
	s.like = set.Cell{
		Config: map[string]string{"transport": p.Name,
			"duration": config.Duration(s.Request.Duration).String()},
		Tool: &tool, Plugin: set.PluginOf(p), StartedAt: s.set.CreatedAt,
	}
	for name, value := range s.Request.Options {
		s.like.Config["options."+name] = value
	}
	if cpus != "" {
		s.like.Config["cpus"] = cpus
	}
}

// Write writes what was read to a file of the engine's directory, and returns its path. It does
// nothing unless Keep was called.
func (s *Study) Write(name string) (path string, err error) {
	if s.set == nil {
		return "", nil
	}
	return s.set.WriteFile(s.Engine.Dir, name)
}

// Expected returns how long so many repeats take at least: a measurement may have several readings.
func (s *Study) Expected(repeats int) time.Duration {
	readings := len(s.Request.Names)
	switch {
	case slices.Contains(s.Request.Names, record.MicroSetup):
		readings = len(s.Request.Connections)
	case readings == 0:
		readings = len(s.Plugin.Microbenchmarks)
	}
	return experiment.ExpectedReadings(repeats, time.Duration(readings)*s.Request.Duration)
}

// Run takes every reading so many times, each time in a process of its own. With hosts, it takes
// setups between two of them.
func (s *Study) Run(ctx context.Context, repeats int) error {
	if s.Request.Counters {
		if err := machine.CheckCounters(); err != nil {
			s.Engine.Note(err.Error())
			s.Request.Counters = false
		}
	}
	take := s.take
	if s.Engine.Place != nil {
		take = s.takeBetween
	}
	began := time.Now()
	for i := 1; i <= repeats; i++ {
		if err := take(ctx); err != nil {
			return err
		}
		left := time.Since(began) / time.Duration(i) * time.Duration(repeats-i)
		if left > time.Second {
			s.Engine.Note(fmt.Sprintf("repeat %d of %d, about %s left", i, repeats,
				format.Left(left)))
		}
	}
	return nil
}

// take takes every reading once.
func (s *Study) take(ctx context.Context) error {
	environment := machine.ReadEnvironment()
	before := len(s.Rounds)
	var list []transport.Measurement
	err := s.Plugin.Micro(ctx, s.Request, func(a record.MicroAnswer) error {
		if a.Setup != nil {
			s.Rounds = append(s.Rounds, a.Setup)
		} else {
			list = append(list, a.Measurement)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		if err := s.Engine.ReadWitness(ctx, &list[i], s.Request.CPUs); err != nil {
			return err
		}
	}
	s.Readings = append(s.Readings, list...)
	if s.set == nil {
		return nil
	}
	for _, m := range list {
		if err := s.set.AddMicro(s.like, environment, m); err != nil {
			return err
		}
	}
	return s.addSetups(s.Rounds[before:], environment)
}

// Medians returns one reading for each name and size, in order of appearance, with the medians of
// the repeats.
func (s *Study) Medians() []transport.Measurement {
	type key struct {
		name string
		size int
	}
	var order []key
	repeats := map[key][]transport.Measurement{}
	for _, m := range s.Readings {
		k := key{m.Name, m.Size}
		if repeats[k] == nil {
			order = append(order, k)
		}
		repeats[k] = append(repeats[k], m)
	}
	out := []transport.Measurement{}
	for _, k := range order {
		all := repeats[k]
		m := all[0]
		for _, field := range []func(*transport.Measurement) *float64{
			func(m *transport.Measurement) *float64 { return &m.Latency },
			func(m *transport.Measurement) *float64 { return &m.LatencyP99 },
			func(m *transport.Measurement) *float64 { return &m.Rate },
			func(m *transport.Measurement) *float64 { return &m.Bandwidth },
			func(m *transport.Measurement) *float64 { return &m.Floor },
			func(m *transport.Measurement) *float64 { return &m.RateFloor },
			func(m *transport.Measurement) *float64 { return &m.WitnessLatency },
			func(m *transport.Measurement) *float64 { return &m.WitnessRate },
		} {
			var values []float64
			for i := range all {
				values = append(values, *field(&all[i]))
			}
			*field(&m) = record.Median(values)
		}
		m.Samples, m.Counters = 0, map[string]uint64{}
		for i := range all {
			m.Samples += all[i].Samples
			for name, n := range all[i].Counters {
				m.Counters[name] += n
			}
		}
		out = append(out, m)
	}
	return out
}
