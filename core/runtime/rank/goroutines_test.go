package rank

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// goroutineDriver is the memory transport with the capability goroutines. Its workers collect
// garbage when they are polled.
type goroutineDriver struct{ *memory.Driver }

func (d goroutineDriver) Open(ctx context.Context, cfg transport.Config) (transport.Transport,
	error) {
	t, err := d.Driver.Open(ctx, cfg)
	return goroutineTransport{t}, err
}

type goroutineTransport struct{ transport.Transport }

func (t goroutineTransport) Properties() transport.Properties {
	p := t.Transport.Properties()
	p.Capabilities.Goroutines = true
	return p
}

func (t goroutineTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.Transport.NewWorker(index)
	return &goroutineWorker{Worker: w}, err
}

// goroutineWorker allocates as a transport with goroutines does.
type goroutineWorker struct {
	transport.Worker
	garbage []byte
}

func (w *goroutineWorker) Poll(events []transport.Event) (int, error) {
	w.garbage = make([]byte, 1<<20)
	return w.Worker.Poll(events)
}

// TestGoroutines checks what a transport with goroutines gets: processors, polling loops that the
// scheduler moves between threads, and the collector.
func TestGoroutines(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	ranks := cluster(t, goroutineDriver{memory.NewDriver()}, testConfig(),
		config.IdleYield)
	require.Greater(t, runtime.GOMAXPROCS(0), before,
		"each loop that yields has a processor besides the others")
	for _, r := range ranks {
		for _, thread := range r.threads {
			require.False(t, thread.locked)
			require.Equal(t, countersNeedThread, thread.counters.reason)
		}
	}
	collections := func() int64 {
		var s debug.GCStats
		debug.ReadGCStats(&s)
		return s.NumGC
	}
	go func(before int64) {
		// Other tests may have left so large a heap that it takes a while.
		for start := time.Now(); collections() < before+3 && time.Since(start) < 30*time.Second; {
			time.Sleep(time.Millisecond)
		}
		stopWhen(t, ranks, 100)
	}(collections())
	_, others, err := runAll(t, ranks, record.Window{Duration: time.Minute, SampleEvery: 1})
	require.NoError(t, err)
	client := others[0].Clients[0]
	require.Positive(t, client.Ops())
	require.Zero(t, client.Thread.CPUNS, "the kernel has no figures of a goroutine")
	require.Positive(t, others[0].Process.CPUNS)
	require.Positive(t, others[0].Process.Collections, "the collector is on")
}

func TestProcessorsForGoroutines(t *testing.T) {
	require.Equal(t, 16, processorsFor(config.IdlePark, 3, 16))
	require.Equal(t, 2, processorsFor(config.IdlePark, 3, 1), "one is the control plane's")
	require.Equal(t, 19, processorsFor(config.IdleSpin, 3, 16))
}
