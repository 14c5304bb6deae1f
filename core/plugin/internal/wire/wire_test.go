package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRank calls the functions that a test sets; a nil function panics.
type fakeRank struct {
	prepare  func(context.Context, record.Plan) (record.Prepared, error)
	connect  func(context.Context, []record.RankWorkers) error
	overhead func(context.Context, time.Duration) (record.Overhead, error)
	probe    func(context.Context, record.Probe) (transport.Floor, error)
	run      func(context.Context, record.Window, func(), func(record.Progress)) (
		record.Report, error)
	advance func(context.Context, record.State) error
	close   func(context.Context) error
}

func (f *fakeRank) Prepare(ctx context.Context, p record.Plan) (record.Prepared, error) {
	return f.prepare(ctx, p)
}
func (f *fakeRank) Connect(ctx context.Context, w []record.RankWorkers) error {
	return f.connect(ctx, w)
}
func (f *fakeRank) Overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	return f.overhead(ctx, d)
}
func (f *fakeRank) Probe(ctx context.Context, p record.Probe) (transport.Floor, error) {
	return f.probe(ctx, p)
}
func (f *fakeRank) Run(ctx context.Context, p record.Window, s func(),
	g func(record.Progress)) (record.Report, error) {
	return f.run(ctx, p, s, g)
}
func (f *fakeRank) Advance(ctx context.Context, to record.State) error { return f.advance(ctx, to) }
func (f *fakeRank) Close(ctx context.Context) error                    { return f.close(ctx) }

// link connects a client to a server in the same process.
func link(t *testing.T, newRank func() record.Control) (*Client, *Server) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := NewServer([]byte(`{"info":{"name":"fake"}}`), newRank)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(math.MaxInt32))
	server.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///fake",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		g.Stop()
		require.NoError(t, <-served)
	})
	return NewClient(conn, nil), server
}

func linkOne(t *testing.T, f *fakeRank) *Client {
	c, _ := link(t, func() record.Control { return f })
	return c
}

func TestArgumentsAndResultsSurvive(t *testing.T) {
	ctx := context.Background()
	plan := record.Plan{Rank: 3, Config: config.Default(), CPUs: []int{0, -1}, Idle: "spin"}
	plan.Config.Options = map[string]string{"ring": "lamport"}
	prepared := record.Prepared{
		Workers: record.RankWorkers{Rank: 3, Daemons: [][]byte{{0, 255}},
			Clients: [][]byte{{}, {7}}},
		Properties: transport.Properties{Provider: "memfd", Limits: transport.Limits{Peers: 4}},
		PID:        42, CPUs: []string{"0", "0-1"},
	}
	overhead := record.Overhead{PerOpNS: 12.5, StampNS: 9}
	probe := record.Probe{
		Near: record.Thread{Rank: 3, Daemon: -1, Client: 1},
		Far:  record.Thread{Rank: 0, Daemon: 2, Client: -1},
		Probe: transport.Probe{Kind: transport.ProbeRate, Initiate: true,
			Duration: time.Millisecond, Forth: 16, Back: 48, InFlight: 32},
	}
	floor := transport.Floor{Name: "bounce", RoundTrip: 120.5, Samples: 1000}
	closed := false
	var stages []record.State
	c := linkOne(t, &fakeRank{
		prepare: func(_ context.Context, got record.Plan) (record.Prepared, error) {
			require.Equal(t, plan, got)
			return prepared, nil
		},
		connect: func(_ context.Context, got []record.RankWorkers) error {
			require.Equal(t, []record.RankWorkers{prepared.Workers}, got)
			return nil
		},
		overhead: func(_ context.Context, d time.Duration) (record.Overhead, error) {
			require.Equal(t, time.Second, d)
			return overhead, nil
		},
		probe: func(_ context.Context, got record.Probe) (transport.Floor, error) {
			require.Equal(t, probe, got)
			return floor, nil
		},
		advance: func(_ context.Context, to record.State) error {
			stages = append(stages, to)
			return nil
		},
		close: func(context.Context) error { closed = true; return nil },
	})
	description, err := c.Describe(ctx)
	require.NoError(t, err)
	require.JSONEq(t, `{"info":{"name":"fake"}}`, string(description))
	gotPrepared, err := c.Prepare(ctx, plan)
	require.NoError(t, err)
	require.Equal(t, prepared, gotPrepared)
	require.NoError(t, c.Connect(ctx, []record.RankWorkers{prepared.Workers}))
	gotOverhead, err := c.Overhead(ctx, time.Second)
	require.NoError(t, err)
	require.Equal(t, overhead, gotOverhead)
	gotFloor, err := c.Probe(ctx, probe)
	require.NoError(t, err)
	require.Equal(t, floor, gotFloor)
	require.NoError(t, c.Advance(ctx, record.StateDraining))
	require.NoError(t, c.Close(ctx))
	require.Equal(t, []record.State{record.StateDraining, record.StateStopped}, stages,
		"a rank is stopped before it is closed")
	require.True(t, closed)
	require.NoError(t, c.Close(ctx), "a rank that is closed stays so")
}

// JSON has no NaN and no infinity: an answer with one is an error of its own type, not a failure of
// gRPC.
func TestNumbersThatJSONDoesNotHave(t *testing.T) {
	c := linkOne(t, &fakeRank{
		overhead: func(context.Context, time.Duration) (record.Overhead, error) {
			return record.Overhead{PerOpNS: math.Inf(1)}, nil
		},
		run: func(context.Context, record.Window, func(), func(record.Progress)) (
			record.Report, error) {
			return record.Report{Clients: []record.ClientReport{{MeanNS: math.NaN()}}}, nil
		},
	})
	var invalid *record.InvalidError
	_, err := c.Overhead(t.Context(), time.Second)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "+Inf", invalid.Value)
	_, err = c.Run(t.Context(), record.Window{}, ignore, ignoreProgress)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "NaN", invalid.Value)
}

// The addresses of many workers exceed gRPC's default limit of 4 MiB.
func TestLongMessages(t *testing.T) {
	workers := []record.RankWorkers{{Daemons: [][]byte{make([]byte, 6<<20)}}}
	c := linkOne(t, &fakeRank{connect: func(_ context.Context, got []record.RankWorkers) error {
		require.Equal(t, workers, got)
		return nil
	}})
	require.NoError(t, c.Connect(context.Background(), workers))
}

// foreign is an error type unknown to the host.
type foreign struct{ err error }

func (f *foreign) Error() string { return "foreign: " + f.err.Error() }
func (f *foreign) Unwrap() error { return f.err }

func TestErrorsKeepTextAndType(t *testing.T) {
	opError := transport.NewOpError("shm", "open",
		transport.Unavailable("/dev/shm is full: free %d bytes", 4096))
	for name, c := range map[string]struct {
		err error
		is  []error
	}{
		"unsupported": {transport.ErrUnsupported, []error{transport.ErrUnsupported}},
		"peer down": {fmt.Errorf("x: %w", transport.ErrPeerDown),
			[]error{transport.ErrPeerDown}},
		"too large": {&foreign{transport.ErrTooLarge}, []error{transport.ErrTooLarge}},
		"closed": {errors.Join(transport.ErrClosed, errors.New("and more")),
			[]error{transport.ErrClosed}},
		"corrupt": {fmt.Errorf("a %w and a %w", transport.ErrCorrupt, context.Canceled),
			[]error{transport.ErrCorrupt, context.Canceled}},
		"unavailable": {fmt.Errorf("preparing rank 1: %w", opError),
			[]error{transport.ErrUnavailable}},
		"deadline": {fmt.Errorf("connect: %w", context.DeadlineExceeded),
			[]error{context.DeadlineExceeded}},
		"plain":     {errors.New("plain text: ünïcode, \"quotes\""), nil},
		"not UTF-8": {errors.New("bad \xff byte"), nil},
		"escapes": {transport.NewOpError("a\x1b[2J", "\u202e", errors.New("\r\b\u009b")),
			nil},
		"text like a status": {errors.New("rpc error: code = Unavailable"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := linkOne(t,
				&fakeRank{connect: func(context.Context, []record.RankWorkers) error {
					return c.err
				}})
			err := client.Connect(context.Background(), nil)
			require.Error(t, err)
			text := strings.ToValidUTF8(c.err.Error(), "\uFFFD") // JSON is UTF-8
			require.Equal(t, printable.Text(strings.ReplaceAll(text, "\n", "; ")), err.Error())
			for _, sentinel := range c.is {
				require.ErrorIs(t, err, sentinel)
			}
			for _, sentinel := range sentinels {
				require.Equal(t, errors.Is(c.err, sentinel), errors.Is(err, sentinel), "%v",
					sentinel)
			}
		})
	}
}

func TestErrorsKeepFields(t *testing.T) {
	fail := func(t *testing.T, sent error) error {
		c := linkOne(t, &fakeRank{prepare: func(context.Context, record.Plan) (record.Prepared,
			error) {
			return record.Prepared{}, sent
		}})
		_, err := c.Prepare(context.Background(), record.Plan{})
		require.EqualError(t, err, sent.Error())
		return err
	}
	t.Run("config.Error", func(t *testing.T) {
		want := &config.Error{Option: "ranks", Problem: "1 is out of range (2 to 1024)"}
		var got *config.Error
		require.ErrorAs(t, fail(t, fmt.Errorf("rank 0: %w", want)), &got)
		require.Equal(t, want, got)
	})
	t.Run("OptionError", func(t *testing.T) {
		want := &transport.OptionError{Option: "rong", Problem: `unknown; did you mean "ring"?`}
		var got *transport.OptionError
		require.ErrorAs(t, fail(t, want), &got)
		require.Equal(t, want, got)
	})
	t.Run("OpError", func(t *testing.T) {
		for _, peer := range []transport.PeerID{0, 7, transport.NoPeer} {
			want := &transport.OpError{Transport: "shm", Op: "connect", Peer: peer,
				Err: transport.ErrPeerDown}
			var got *transport.OpError
			require.ErrorAs(t, fail(t, fmt.Errorf("%w (%w)", want, fs.ErrNotExist)), &got)
			require.Equal(t, want, got)
		}
	})
}

func TestDeepErrorsAreCut(t *testing.T) {
	err := errors.New("core")
	for range 10 * maxDepth {
		err = fmt.Errorf("%w", err)
	}
	c := linkOne(t, &fakeRank{connect: func(context.Context, []record.RankWorkers) error {
		return err
	}})
	require.EqualError(t, c.Connect(context.Background(), nil), "core")
}

func FuzzFailureNeverPanics(f *testing.F) {
	f.Add([]byte(`{"text":"a","kind":"op","causes":[{"text":"b","kind":"closed"},null]}`))
	f.Add([]byte(`{"text":"a","causes":[{"kind":"config","option":"ranks","problem":"b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var received failure
		if (jsonCodec{}).Unmarshal(data, &received) != nil {
			return
		}
		err := decodeFailure(&received, 0)
		require.Error(t, err)
		_ = err.Error()
	})
}

// Whatever text a rank answers with is one printable line in the host.
func TestAnswersArePrintable(t *testing.T) {
	const raw, shown = "a\x1b[2J\u202e\nb", `a\x1b[2J\u202e\nb`
	prepared := func(text string) record.Prepared {
		return record.Prepared{CPUs: []string{text}, Properties: transport.Properties{
			Provider: text, Medium: text, Integrity: text, Libraries: map[string]string{text: text},
			Notes: map[string]string{text: text},
		}}
	}
	report := func(text string) record.Report {
		return record.Report{
			Clients: []record.ClientReport{{NoStages: text, Failures: map[string]uint64{text: 1}}},
			Process: record.ProcessReport{Clock: text, NoCounters: text},
		}
	}
	c := linkOne(t, &fakeRank{
		prepare: func(context.Context, record.Plan) (record.Prepared, error) {
			return prepared(raw),
				nil
		},
		run: func(context.Context, record.Window, func(), func(record.Progress)) (
			record.Report, error) {
			return report(raw), errors.New(raw)
		},
		advance: func(context.Context, record.State) error { return nil },
		close:   func(context.Context) error { return nil },
	})
	gotPrepared, err := c.Prepare(context.Background(), record.Plan{})
	require.NoError(t, err)
	require.Equal(t, prepared(shown), gotPrepared)
	gotReport, err := c.Run(context.Background(), record.Window{}, func() {},
		func(record.Progress) {})
	require.EqualError(t, err, strings.ReplaceAll(shown, `\n`, "; "))
	require.Equal(t, report(shown), gotReport)
}
