package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
)

// microProcessors is the smallest GOMAXPROCS of `micro`. A measurement may have two polling
// threads; without further processors, a goroutine that returns from a system call would wait for
// one of them.
const microProcessors = 4

// micro runs the microbenchmarks until SIGINT or SIGTERM.
func micro(driver transport.Driver, text string, stdout, stderr io.Writer) int {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), microProcessors))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	encoder := json.NewEncoder(stdout)
	err := measure(ctx, driver, text, func(a record.MicroAnswer) error {
		err := encoder.Encode(a)
		return cmp.Or(record.NotFinite(err), err)
	})
	if err != nil {
		last := record.MicroAnswer{Error: err.Error()}
		errors.As(err, &last.Invalid)
		_ = encoder.Encode(last)
		fmt.Fprintln(stderr, err)
		return exitInternal
	}
	return exitOK
}

func measure(ctx context.Context, driver transport.Driver, text string,
	report func(record.MicroAnswer) error) error {
	var request record.MicroRequest
	if err := json.Unmarshal([]byte(text), &request); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	info := driver.Info()
	name := info.Name
	options, err := suggest.ParseOptions(info.AllMicroOptions(), request.Options)
	if err != nil {
		return err
	}
	if len(request.CPUs) > 0 {
		if err := machine.Confine(request.CPUs); err != nil {
			return err
		}
	}
	if slices.Equal(request.Names, []string{record.MicroSetup}) {
		return setUpAgain(ctx, driver, options, request.Connections, request.Duration,
			func(r *record.SetupReading) error { return report(record.MicroAnswer{Setup: r}) })
	}
	m, ok := driver.(transport.Microbenchmarker)
	if !ok {
		return fmt.Errorf("the transport %s has no microbenchmarks but %s", name, record.MicroSetup)
	}
	known := m.Microbenchmarks()
	for _, wanted := range request.Names {
		if !slices.Contains(known, wanted) {
			return fmt.Errorf("%s has no microbenchmark %q%s; it has %s, and %s alone", name,
				wanted, suggest.For(wanted, append(known, record.MicroSetup)),
				strings.Join(known, ", "), record.MicroSetup)
		}
	}
	wanted := func(name string) bool {
		return len(request.Names) == 0 ||
			slices.Contains(request.Names, name)
	}
	count := func() (map[string]uint64, error) { return nil, nil }
	if request.Counters {
		counters, err := machine.OpenProcessCounters()
		if err != nil {
			return err
		}
		defer func() { _ = counters.Close() }()
		count = counters.Read
	}
	before, err := count()
	if err != nil {
		return err
	}
	return m.Microbenchmark(ctx, options, wanted, request.Duration,
		func(m transport.Measurement) error {
			after, err := count()
			if err != nil {
				return err
			}
			m.Counters = machine.CountersSince(before, after)
			before = after
			return report(record.MicroAnswer{Measurement: m})
		})
}
