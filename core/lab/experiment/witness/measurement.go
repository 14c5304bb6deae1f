package witness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"

	"transportbench/core/fabric/rdma/perftest"
	"transportbench/core/transport"
)

// Beside runs the witness of a reading of microbenchmarks and adds its figure to the reading. cpus
// are the processors of its server and its client; with fewer than two, they run on any. A reading
// whose witness is not installed stays as it is; missing is the reason, in one line with the
// remedy.
func Beside(ctx context.Context, m *transport.Measurement, cpus []int) (missing string, err error) {
	r, known := perftest.Program(m.Witness[0])
	if !known {
		return "", fmt.Errorf("%s: %q is no program of perftest", m.Name, m.Witness[0])
	}
	if _, err := exec.LookPath(r.Tool); err != nil {
		return absent(&r), nil
	}
	r.Server = append(slices.Clone(m.Witness[1:]), "--port={port}", "--CPU-freq")
	r.Client = append(slices.Clone(r.Server), "{address}")
	load := Load{Size: m.Size, Daemon: End{CPU: -1}, Client: End{CPU: -1}}
	if len(cpus) > 1 {
		load.Daemon.CPU, load.Client.CPU = cpus[1], cpus[0]
	}
	here := &Local{References: []transport.Reference{r}}
	w := &Witness{tool: &r, load: load, daemon: here, client: here, patience: patience}
	reading, err := w.Measure(ctx)
	if errors.Is(err, errServerEnded) { // another program may have taken its port
		reading, err = w.Measure(ctx)
	}
	if err != nil {
		return "", err
	}
	m.WitnessLatency = reading.RoundTrip / 2 // as perftest defines it
	if reading.PerOp > 0 {
		m.WitnessRate = load.messages() * 1e9 / reading.PerOp // in one direction
	}
	return "", nil
}
