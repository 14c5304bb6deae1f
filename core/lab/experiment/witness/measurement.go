package witness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/transport"
)

// Beside runs the witness of a reading of microbenchmarks and adds its figure to the reading. cpus
// are the processors of its server and its client; with fewer than two, they run on any. A reading
// whose witness is not installed stays as it is; missing is the reason, in one line with the
// remedy.
func Beside(ctx context.Context, m *transport.Measurement, cpus []int) (missing string, err error) {
	t, err := perftestOf(m)
	if err != nil {
		return "", err
	}
	if _, err := exec.LookPath(t.name); err != nil {
		return t.absent(), nil
	}
	load := Load{Size: m.Size, Daemon: End{CPU: -1}, Client: End{CPU: -1}}
	if len(cpus) > 1 {
		load.Daemon.CPU, load.Client.CPU = cpus[1], cpus[0]
	}
	here := &Local{custom: t}
	w := &Witness{tool: t, load: load, daemon: here, client: here, patience: patience}
	reading, err := w.Measure(ctx)
	if errors.Is(err, errServerEnded) { // another program may have taken its port
		reading, err = w.Measure(ctx)
	}
	if err != nil {
		return "", err
	}
	m.WitnessLatency = reading.RoundTrip
	if reading.PerOp > 0 {
		m.WitnessRate = 1e9 / reading.PerOp
	}
	return "", nil
}

// perftestOf returns the program of perftest that a reading names.
func perftestOf(m *transport.Measurement) (*tool, error) {
	name := m.Witness[0]
	reading := perftestLatency
	switch {
	case !strings.HasPrefix(name, "ib_"):
		return nil, fmt.Errorf("%s: %q is no program of perftest", m.Name, name)
	case strings.HasSuffix(name, "_bw"):
		reading = perftestRate
	}
	return &tool{
		name: name, pkg: "perftest",
		commands: func(l *Load, port string) (server, client []string) {
			server = append(slices.Clone(m.Witness), "--port="+port, "--CPU-freq")
			return server, append(slices.Clone(server), l.address())
		},
		environment: func(*Load) map[string]string { return nil },
		reading: func(_ *Load, output []byte) (transport.Floor, error) {
			return reading(name, output)
		},
	}, nil
}

// perftestLatency reads what ib_write_lat and its like print: t_typical, as they define it, which
// is half of a round trip unless the operation fetches.
func perftestLatency(name string, output []byte) (transport.Floor, error) {
	fields := figures(output, 7)
	if fields == nil {
		return transport.Floor{}, noReading(name, output)
	}
	samples, _ := strconv.Atoi(fields[1])
	return roundTrip(name, fields[4], 1000, samples)
}

// perftestRate reads the columns #bytes, #iterations, BW peak, BW average and MsgRate[Mpps].
func perftestRate(name string, output []byte) (transport.Floor, error) {
	fields := figures(output, 5)
	if fields == nil {
		return transport.Floor{}, noReading(name, output)
	}
	rate, err := strconv.ParseFloat(fields[4], 64)
	if err != nil || !(rate > 0) {
		return transport.Floor{}, errors.Join(err, noReading(name, output))
	}
	samples, _ := strconv.Atoi(fields[1])
	return transport.Floor{Name: name, PerOp: 1e3 / rate, Samples: samples}, nil
}

// figures returns the fields of the first line of at least so many numbers.
func figures(output []byte, least int) []string {
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) >= least &&
			strings.Trim(strings.Join(fields, ""), "0123456789.") == "" {
			return fields
		}
	}
	return nil
}
