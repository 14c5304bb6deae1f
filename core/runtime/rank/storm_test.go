package rank

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// tallied counts what is open of a driver. From the first storm on, every failEvery-th Open fails.
type tallied struct {
	transport.Driver
	opened, closed, workers *atomic.Int64
	failEvery               int64
	before                  int64 // opened before
}

var errNoDevice = errors.New("no device")

func (d *tallied) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	n := d.opened.Add(1)
	if d.failEvery > 0 && n > d.before && (n-d.before)%d.failEvery == 0 {
		d.closed.Add(1)
		return nil, errNoDevice
	}
	tr, err := d.Driver.Open(ctx, cfg)
	return talliedTransport{tr, d}, err
}

type talliedTransport struct {
	transport.Transport
	of *tallied
}

func (t talliedTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.Transport.NewWorker(index)
	if err == nil {
		t.of.workers.Add(1)
	}
	return talliedWorker{w, t.of}, err
}

func (t talliedTransport) Close() error {
	t.of.closed.Add(1)
	return t.Transport.Close()
}

type talliedWorker struct {
	transport.Worker
	of *tallied
}

func (w talliedWorker) Close() error {
	w.of.workers.Add(-1)
	return w.Worker.Close()
}

// TestStorm checks that a storm opens and closes what it reports, beside the load.
func TestStorm(t *testing.T) {
	for _, failEvery := range []int64{0, 3} {
		cfg := testConfig()
		cfg.Traffic = "storm:2000"
		require.NoError(t, cfg.Validate())
		driver := &tallied{memory.NewDriver(), new(atomic.Int64), new(atomic.Int64),
			new(atomic.Int64), failEvery, int64(cfg.Ranks)}
		ranks := cluster(t, driver, cfg, config.IdlePark)
		workers := driver.workers.Load()
		begun := driver.opened.Load()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for driver.closed.Load() < 100 {
				time.Sleep(time.Millisecond)
			}
			stopWhen(t, ranks, 10)
		}()
		first, others, err := runAll(t, ranks, record.Window{Duration: time.Hour, SampleEvery: 1})
		<-ended
		require.NoError(t, err)
		require.Nil(t, first.Storm, "a rank that serves makes no storm")
		made, failed := uint64(0), uint64(0)
		for _, r := range others {
			s := r.Storm
			require.Equal(t, s.Connections, s.Connect.Samples)
			require.Equal(t, s.Connections, s.Close.Samples)
			require.GreaterOrEqual(t, s.Due, s.Connections+s.Failed)
			require.Positive(t, s.Connections, "%d failed: %s", s.Failed, s.Error)
			require.Positive(t, r.Clients[0].Ops())
			require.Equal(t, failEvery > 0, s.Error != "")
			made, failed = made+s.Connections, failed+s.Failed
		}
		require.Equal(t, failEvery > 0, failed > 0)
		opened := driver.opened.Load() - begun
		require.Equal(t, opened, driver.closed.Load(), "all that was opened is closed")
		require.Equal(t, workers, driver.workers.Load(), "only the measured workers are left")
		require.LessOrEqual(t, int64(2*made), opened)
		require.GreaterOrEqual(t, int64(2*(made+failed)), opened)
		if failEvery == 0 {
			require.Equal(t, int64(2*made), opened, "two sides of each connection")
		}
	}
}
