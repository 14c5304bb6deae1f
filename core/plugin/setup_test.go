package plugin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// slowingDriver takes longer for each Open, and counts what is open.
type slowingDriver struct {
	*memory.Driver
	opened, closed *int
	step           time.Duration
}

func (d slowingDriver) Open(ctx context.Context, cfg transport.Config) (transport.Transport,
	error) {
	*d.opened++
	time.Sleep(time.Duration(*d.opened) * d.step)
	tr, err := d.Driver.Open(ctx, cfg)
	return slowingTransport{tr, d}, err
}

type slowingTransport struct {
	transport.Transport
	driver slowingDriver
}

func (t slowingTransport) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(dst, transport.Stat{Name: transport.StatRegisteredBytes, Value: 1 << 20},
		transport.Stat{Name: transport.StatRegisterTime, Value: uint64(*t.driver.opened)})
}

func (t slowingTransport) Close() error {
	*t.driver.closed++
	return t.Transport.Close()
}

func TestSetUpAgain(t *testing.T) {
	d := slowingDriver{memory.NewDriver(), new(int), new(int), 10 * time.Microsecond}
	code, answers := runMicro(t, d, `{"names":["setup"],"connections":[1,6],"duration_ns":1}`)
	require.Equal(t, exitOK, code, answers)
	require.Len(t, answers, 2*record.MinSetups)
	require.Equal(t, 4*record.MinSetups, *d.opened, "two ends")
	require.Equal(t, *d.opened, *d.closed)
	for i, a := range answers {
		s, n := a.Setup, uint64(1)
		if i >= record.MinSetups {
			n = 6
		}
		require.Equal(t, n, s.Connections)
		require.Equal(t, n, s.FirstCalls)
		require.GreaterOrEqual(t, s.OpenNS, uint64(2*(i+1)*int(d.step)),
			"the calling end is opened second")
		require.Equal(t, uint64(1<<20), s.RegisteredBytes)
		require.Equal(t, uint64(2*(i+1)), s.RegisterNS)
		require.Positive(t, s.FirstCallNS)
		require.LessOrEqual(t, s.FirstCallNS, s.FirstCallMaxNS)
		require.LessOrEqual(t, s.ConnectMaxNS, s.ConnectNS)
		require.LessOrEqual(t, s.ConnectNS, s.ConnectAllNS)
		require.Positive(t, s.CloseNS)
	}
}

// deafDriver's workers never have an event, and it fails to open at all after some times.
type deafDriver struct {
	*memory.Driver
	fails error
}

func (d deafDriver) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	if d.fails != nil {
		return nil, d.fails
	}
	tr, err := d.Driver.Open(ctx, cfg)
	return deafTransport{tr}, err
}

type deafTransport struct{ transport.Transport }

func (t deafTransport) NewWorker(i int) (transport.Worker, error) {
	w, err := t.Transport.NewWorker(i)
	return deafWorker{w}, err
}

type deafWorker struct{ transport.Worker }

func (deafWorker) Poll([]transport.Event) (int, error) { return 0, nil }

func TestSetUpFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("stopped"))
	options, err := transport.ParseOptions(memory.NewDriver().Info().Options, nil)
	require.NoError(t, err)
	_, err = setUpOnce(ctx, deafDriver{Driver: memory.NewDriver()}, options, 1)
	require.ErrorContains(t, err, "first call of worker 0 to worker 0: stopped")
	_, answers := runMicro(t, deafDriver{memory.NewDriver(), errors.New("no device")},
		`{"names":["setup"],"connections":[3],"duration_ns":1}`)
	require.Equal(t, "setup: round 1 with 3 connections: no device", answers[0].Error)
}

func TestGrid(t *testing.T) {
	for n, want := range map[int][2]int{1: {1, 1}, 7: {1, 7}, 10: {2, 5}, 100: {10, 10},
		1000: {25, 40}} {
		servers, clients := record.SetupGrid(n)
		require.Equal(t, want, [2]int{servers, clients}, n)
	}
}
