package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/transport"
)

const (
	// answerTimeout bounds the calls that a rank answers at once, even if it hardly gets a
	// processor.
	answerTimeout = time.Minute
	// stopTimeout bounds the time from the end of Run's context to the report.
	stopTimeout = 5 * time.Second
)

// Client is the host's end of the control service. Describe, Advance and Close are bounded in
// time; the other calls last until their context ends or the connection breaks.
type Client struct {
	service     string
	conn        grpc.ClientConnInterface
	lost        func(error) error
	stopTimeout time.Duration
	threads     atomic.Int64 // of the rank, from Prepare
}

var _ record.Control = (*Client)(nil)

// NewClient returns a client of the rank at the other end of conn. When the connection breaks,
// calls return lost(err), where err is gRPC's error; if lost is nil, they return err.
func NewClient(conn grpc.ClientConnInterface, lost func(error) error) *Client {
	if lost == nil {
		lost = func(err error) error { return err }
	}
	return &Client{service: serviceName, conn: conn, lost: lost, stopTimeout: stopTimeout}
}

// answerSize bounds an answer in bytes, for the rank and once more for each of its polling threads.
// A thread reports up to 20 histograms of up to 72 KiB each.
const answerSize = 4 << 20

// options returns the options of a call.
func (c *Client) options() []grpc.CallOption {
	limit := min((1+c.threads.Load())*answerSize, math.MaxInt32)
	return []grpc.CallOption{grpc.CallContentSubtype(codecName),
		grpc.MaxCallRecvMsgSize(int(limit))}
}

// call makes one unary call and returns its value, or the rank's own error.
func call[Value any](ctx context.Context, c *Client, name string, request any) (Value, error) {
	var text answer
	var answered reply[Value]
	if err := c.conn.Invoke(ctx, method(c.service, name), request, &text,
		c.options()...); err != nil {
		return answered.Value, c.statusError(ctx, name, err)
	}
	if err := accept.Decode(text, strings.ToLower(name), &answered); err != nil {
		return answered.Value, err
	}
	printable.Strings(&answered.Value)
	return answered.Value, decodeFailure(answered.Error, 0)
}

// Describe returns the plugin's description as JSON.
func (c *Client) Describe(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return call[json.RawMessage](ctx, c, "Describe", none{})
}

// Prepare implements [record.Control].
func (c *Client) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	c.threads.Store(int64(len(plan.CPUs)))
	return call[record.Prepared](ctx, c, "Prepare", plan)
}

// Connect implements [record.Control].
func (c *Client) Connect(ctx context.Context, workers []record.RankWorkers) error {
	_, err := call[none](ctx, c, "Connect", workers)
	return err
}

// Overhead implements [record.Control].
func (c *Client) Overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	return call[record.Overhead](ctx, c, "Overhead", d)
}

// Probe implements [record.Control].
func (c *Client) Probe(ctx context.Context, probe record.Probe) (transport.Floor, error) {
	return call[transport.Floor](ctx, c, "Probe", probe)
}

// Advance implements [record.Control]. It is bounded in time.
func (c *Client) Advance(ctx context.Context, to record.State) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := call[none](ctx, c, "Advance", to)
	return err
}

// Close implements [record.Control]. It is bounded in time.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := call[none](ctx, c, "Close", none{})
	return err
}

// Run implements [record.Control]. When ctx ends, Run stops the window and keeps the stream open
// for the report of the shortened window, for stopTimeout at most.
func (c *Client) Run(
	ctx context.Context, window record.Window, started func(), progress func(record.Progress),
) (record.Report, error) {
	if err := ctx.Err(); err != nil {
		return record.Report{}, fmt.Errorf("run: %w", err)
	}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.stopRun(streamCtx, cancel) })()

	stream, err := c.conn.NewStream(streamCtx, &runStream, method(serviceName, "Run"),
		c.options()...)
	if err == nil {
		// When SendMsg returns io.EOF, RecvMsg returns the reason.
		if err = stream.SendMsg(window); err == nil || errors.Is(err, io.EOF) {
			err = stream.CloseSend()
		}
	}
	for err == nil {
		var text answer
		if err = stream.RecvMsg(&text); err != nil {
			break
		}
		var e event
		if err := accept.Decode(text, "run", &e); err != nil {
			return record.Report{}, err
		}
		switch {
		case e.Started:
			started()
		case e.Progress != nil:
			progress(*e.Progress)
		case e.Report != nil:
			printable.Strings(e.Report)
			return *e.Report, decodeFailure(e.Error, 0)
		default:
			return record.Report{}, &record.InvalidError{Field: "run",
				Value: "a message without content", Bound: "started, progress or a report"}
		}
	}
	if errors.Is(err, io.EOF) {
		return record.Report{}, c.lost(errors.New("run: the plugin sent no report"))
	}
	return record.Report{}, c.statusError(ctx, "Run", err)
}

// stopRun asks the rank to end its window, and breaks the stream if no report follows in time. The
// context run ends with the call of Run.
func (c *Client) stopRun(run context.Context, breakStream context.CancelFunc) {
	defer breakStream()
	ctx, cancel := context.WithTimeout(run, c.stopTimeout)
	defer cancel()
	if c.Advance(ctx, record.StateStopped) == nil {
		<-ctx.Done()
	}
}

// said returns the message of a status, which a plugin may have made.
func said(st *status.Status) error {
	return errors.New(record.Cut(printable.Text(st.Message())))
}

// statusError turns gRPC's error of a call into the end of ctx or a lost connection.
func (c *Client) statusError(ctx context.Context, name string, err error) error {
	op := strings.ToLower(name)
	st := status.Convert(err)
	// gRPC's timer may fire before the context's own.
	if st.Code() == codes.DeadlineExceeded {
		return fmt.Errorf("%s: the plugin does not answer: %w", op, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	if st.Code() == codes.ResourceExhausted { // gRPC has no typed error for it
		return &record.InvalidError{Field: op, Value: "an answer that is too long",
			Bound: st.Message()}
	}
	if st.Code() == codes.Unavailable || st.Code() == codes.Canceled {
		return c.lost(fmt.Errorf("%s: lost the plugin: %w", op, said(st)))
	}
	return fmt.Errorf("%s: %w", op, said(st))
}
