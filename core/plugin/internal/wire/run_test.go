package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func ignore()                        {}
func ignoreProgress(record.Progress) {}

func TestRunDeliversInOrder(t *testing.T) {
	seen := make(chan struct{}) // closed when the host has received the first progress
	c := linkOne(t, &fakeRank{run: func(_ context.Context, p record.Window, started func(),
		progress func(record.Progress)) (record.Report, error) {
		require.Equal(t, record.Window{Warmup: true, Duration: time.Second, SampleEvery: 8}, p)
		started()
		started() // the second call has no effect
		progress(record.Progress{Ops: 1, RecentP99: 7.5})
		<-seen
		return record.Report{Rank: 2, SampleEvery: 16, Clients: []record.ClientReport{{Reads: 5}}},
			nil
	}})
	var events []string
	report, err := c.Run(context.Background(), record.Window{Warmup: true, Duration: time.Second,
		SampleEvery: 8},
		func() { events = append(events, "started") },
		func(p record.Progress) {
			require.Equal(t, record.Progress{Ops: 1, RecentP99: 7.5}, p)
			events = append(events, "progress")
			close(seen)
		})
	require.NoError(t, err)
	require.Equal(t, []string{"started", "progress"}, events)
	require.Equal(t, record.Report{Rank: 2, SampleEvery: 16,
		Clients: []record.ClientReport{{Reads: 5}}}, report)
}

// A slow host must not block the rank: the server drops progress.
func TestProgressNeverBlocksTheRank(t *testing.T) {
	ranDone := make(chan struct{})
	c := linkOne(t, &fakeRank{run: func(_ context.Context, _ record.Window, started func(),
		progress func(record.Progress)) (record.Report, error) {
		defer close(ranDone)
		started()
		for i := range 100_000 { // megabytes, more than any flow-control window
			progress(record.Progress{Ops: uint64(i)})
		}
		return record.Report{Rank: 1}, nil
	}})
	last := uint64(0)
	report, err := c.Run(context.Background(), record.Window{},
		func() { <-ranDone }, // the host reads nothing until the rank is done
		func(p record.Progress) {
			require.GreaterOrEqual(t, p.Ops, last)
			last = p.Ops
		})
	require.NoError(t, err)
	require.Equal(t, 1, report.Rank)
}

// The host waits for the last progress, which says that the clients have drained. It must arrive
// even if earlier progress was dropped and the rank ends at once.
func TestLastProgressIsNeverLost(t *testing.T) {
	for name, hold := range map[string]bool{"the rank ends at once": false,
		"the rank waits to be stopped": true} {
		t.Run(name, func(t *testing.T) {
			stopped := make(chan struct{}, 1)
			c := linkOne(t, &fakeRank{
				run: func(_ context.Context, _ record.Window, started func(),
					progress func(record.Progress)) (record.Report, error) {
					started()
					for i := range 100 {
						progress(record.Progress{Ops: uint64(i)})
					}
					progress(record.Progress{Ops: 100, Drained: true})
					if hold {
						<-stopped
					}
					return record.Report{}, nil
				},
				advance: func(context.Context, record.State) error {
					stopped <- struct{}{}
					return nil
				},
			})
			for range 200 {
				drained := make(chan struct{})
				last := record.Progress{}
				advanced := make(chan error, 1)
				go func() {
					if !hold {
						advanced <- nil
						return
					}
					<-drained
					advanced <- c.Advance(context.Background(), record.StateStopped)
				}()
				_, err := c.Run(context.Background(), record.Window{}, ignore,
					func(p record.Progress) {
						last = p
						if p.Drained {
							close(drained)
						}
					})
				require.NoError(t, err)
				require.NoError(t, <-advanced)
				require.Equal(t, record.Progress{Ops: 100, Drained: true}, last)
			}
		})
	}
}

// A rank with a failed thread still returns what it recorded.
func TestFailedRunBringsItsReport(t *testing.T) {
	c := linkOne(t, &fakeRank{run: func(_ context.Context, _ record.Window, started func(),
		_ func(record.Progress)) (record.Report, error) {
		started()
		return record.Report{Rank: 3, Clients: []record.ClientReport{{Reads: 5}}},
			transport.NewOpError("shm", "call", transport.ErrPeerDown)
	}})
	report, err := c.Run(context.Background(), record.Window{}, ignore, ignoreProgress)
	require.ErrorIs(t, err, transport.ErrPeerDown)
	require.Equal(t, record.Report{Rank: 3, Clients: []record.ClientReport{{Reads: 5}}}, report)
}

func TestRunFails(t *testing.T) {
	c := linkOne(t, &fakeRank{run: func(context.Context, record.Window, func(),
		func(record.Progress)) (record.Report, error) {
		return record.Report{}, transport.NewOpError("shm", "poll", transport.ErrCorrupt)
	}})
	_, err := c.Run(context.Background(), record.Window{}, func() { t.Error("never started") },
		ignoreProgress)
	require.ErrorIs(t, err, transport.ErrCorrupt)
	require.EqualError(t, err, "shm: poll: peer broke the protocol")
}

// The end of the context stops the rank, and the report still arrives.
func TestEndOfContextBringsAShortReport(t *testing.T) {
	stopped := make(chan struct{})
	c := linkOne(t, &fakeRank{
		run: func(_ context.Context, _ record.Window, started func(), _ func(record.Progress)) (
			record.Report, error) {
			started()
			<-stopped
			return record.Report{Rank: 1, Stopped: true}, nil
		},
		advance: func(_ context.Context, to record.State) error {
			require.Equal(t, record.StateStopped, to)
			close(stopped)
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	report, err := c.Run(ctx, record.Window{}, cancel, ignoreProgress)
	require.NoError(t, err)
	require.True(t, report.Stopped)
	_, err = c.Run(ctx, record.Window{}, ignore, ignoreProgress)
	require.ErrorIs(t, err, context.Canceled)
}

// If the rank does not stop, Run returns after stopTimeout.
func TestRankThatDoesNotStop(t *testing.T) {
	for name, advance := range map[string]func(context.Context, record.State) error{
		"agrees to stop":  func(context.Context, record.State) error { return nil },
		"refuses to stop": func(context.Context, record.State) error { return errors.New("no") },
		"does not answer": func(ctx context.Context, _ record.State) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := linkOne(t, &fakeRank{advance: advance,
				run: func(ctx context.Context, _ record.Window, started func(),
					_ func(record.Progress)) (record.Report, error) {
					started()
					<-ctx.Done() // the broken stream
					return record.Report{}, ctx.Err()
				}})
			c.stopTimeout = 20 * time.Millisecond
			ctx, cancel := context.WithCancel(context.Background())
			_, err := c.Run(ctx, record.Window{}, cancel, ignoreProgress)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// A host that replaces one that vanished gets a new rank.
func TestPrepareReplacesAnAbandonedRank(t *testing.T) {
	var made, closed []int
	c, server := link(t, func() record.Control {
		number := len(made)
		made = append(made, number)
		return &fakeRank{
			prepare: func(context.Context, record.Plan) (record.Prepared, error) {
				return record.Prepared{PID: number}, nil
			},
			advance: func(context.Context, record.State) error { return nil },
			close:   func(context.Context) error { closed = append(closed, number); return nil },
		}
	})
	for want := range 2 {
		prepared, err := c.Prepare(context.Background(), record.Plan{})
		require.NoError(t, err)
		require.Equal(t, want, prepared.PID)
	}
	require.Equal(t, []int{0}, closed)
	require.NoError(t, server.Shutdown(context.Background()))
	require.Equal(t, []int{0, 1}, closed)
	require.NoError(t, server.Shutdown(context.Background()), "nothing is left to close")
}

// A rank runs one call at a time: closing it waits for the window that was stopped.
func TestShutdownWaitsForTheWindow(t *testing.T) {
	stopped, ran := make(chan struct{}), false
	c, server := link(t, func() record.Control {
		return &fakeRank{
			run: func(_ context.Context, _ record.Window, started func(), _ func(record.Progress)) (
				record.Report, error) {
				started()
				<-stopped
				ran = true
				return record.Report{Stopped: true}, nil
			},
			advance: func(context.Context, record.State) error { close(stopped); return nil },
			close: func(context.Context) error {
				if !ran {
					return errors.New("closed during a window")
				}
				return nil
			},
		}
	})
	closed := make(chan error, 1)
	report, err := c.Run(context.Background(), record.Window{}, func() {
		go func() { closed <- server.Shutdown(context.Background()) }()
	}, ignoreProgress)
	require.NoError(t, err)
	require.True(t, report.Stopped)
	require.NoError(t, <-closed)
}

func TestShutdownIsBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	forever := func(context.Context) error { <-release; return nil }
	nothing := func(context.Context) error { return nil }
	stage := func(f func(context.Context) error) func(context.Context, record.State) error {
		return func(ctx context.Context, _ record.State) error { return f(ctx) }
	}
	for name, f := range map[string]*fakeRank{
		"stop":  {advance: stage(forever), close: nothing},
		"close": {advance: stage(nothing), close: forever},
	} {
		t.Run(name, func(t *testing.T) {
			server := NewServer(nil, func() record.Control { return f })
			server.current()
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			require.ErrorIs(t, server.Shutdown(ctx), context.DeadlineExceeded)
		})
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	c := linkOne(t, &fakeRank{prepare: func(ctx context.Context, _ record.Plan) (
		record.Prepared, error) {
		<-ctx.Done()
		return record.Prepared{}, ctx.Err()
	}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := c.Prepare(ctx, record.Plan{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
