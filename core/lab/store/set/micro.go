package set

import (
	"maps"
	"strconv"

	"transportbench/core/base/machine"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// MicroOption is the option that has the name of a microbenchmark's reading.
const MicroOption = "micro"

// AddMicro adds a reading of microbenchmarks, one repeat of its cell. like has what all readings of
// the command have in common: configuration, tool, plugin and time.
func (s *Set) AddMicro(like Cell, environment machine.Environment, m transport.Measurement) error {
	options := map[string]string{MicroOption: m.Name, "value_size": strconv.Itoa(m.Size)}
	metrics := map[string]float64{
		result.LatencyP50: m.Latency, result.LatencyP99: m.LatencyP99, result.Throughput: m.Rate,
		result.Goodput: m.Bandwidth,
		result.Floor:   m.Floor, result.RateFloor: m.RateFloor,
		result.WitnessRoundTrip: m.WitnessLatency, result.WitnessRate: perOp(m.WitnessRate),
	}
	like.Layer = m.Layer
	for name, ratio := range result.CounterRatios {
		metrics[name], _ = ratio.In(m.Counters)
	}
	return s.AddReading(like, environment, options, WithoutZeros(metrics))
}

// WithoutZeros returns the metrics without those that are 0, which were not measured.
func WithoutZeros(metrics map[string]float64) map[string]float64 {
	maps.DeleteFunc(metrics, func(_ string, value float64) bool { return value == 0 })
	return metrics
}

// perOp returns the nanoseconds of an operation, 0 without a rate.
func perOp(rate float64) float64 {
	if rate == 0 {
		return 0
	}
	return 1e9 / rate
}

// AddReading adds a reading with these metrics, one repeat of the cell that has the options besides
// those of like. It adds nothing without metrics.
func (s *Set) AddReading(like Cell, environment machine.Environment, options map[string]string,
	metrics map[string]float64) error {
	on, err := EnvironmentOf(environment)
	if err != nil {
		return err
	}
	c := like
	c.Config = maps.Clone(like.Config)
	maps.Copy(c.Config, options)
	c.Status, c.Environment, c.Schema = Measured, s.environment(on), result.SchemaVersion
	c.Samples = map[string][]float64{}
	for name, value := range metrics {
		c.Samples[name] = []float64{value}
	}
	if len(c.Samples) > 0 {
		s.Include(&Set{Environments: s.Environments, Cells: []Cell{c}})
	}
	return nil
}

// WriteFile stores the set as a file of a directory, which it makes if needed, and returns its
// path: NAME-<UTC time>.json. It replaces no other file.
func (s *Set) WriteFile(dir, name string) (path string, err error) {
	return result.WriteDocument(dir, name+"-"+s.CreatedAt.UTC().Format("20060102T150405.000Z")+
		".json", s.Encode)
}
