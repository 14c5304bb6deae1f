package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"transportbench/core/base/record"
	"transportbench/core/plugin/controlpb"
	"transportbench/core/transport"
)

const (
	// answerTimeout bounds the calls that a healthy rank answers at once.
	answerTimeout = 10 * time.Second
	// stopTimeout is how long a run may take from the end of its context to
	// its report.
	stopTimeout = 5 * time.Second
)

// Client is the host's end. Advance, Close and Describe are bounded in time by
// themselves; the others last until their context ends or the connection
// breaks.
type Client struct {
	stub        controlpb.ControlClient
	lost        func(error) error
	stopTimeout time.Duration
}

var _ record.Control = (*Client)(nil)

// NewClient calls the rank at the far end of conn. Where the connection breaks,
// the error that callers get is what lost makes of gRPC's; lost may be nil.
func NewClient(conn grpc.ClientConnInterface, lost func(error) error) *Client {
	if lost == nil {
		lost = func(err error) error { return err }
	}
	return &Client{stub: controlpb.NewControlClient(conn), lost: lost, stopTimeout: stopTimeout}
}

// Describe returns the plugin's description as JSON.
func (c *Client) Describe(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := c.stub.Describe(ctx, &controlpb.DescribeRequest{})
	return resp.GetDescription(), c.failure(ctx, "describe", err)
}

// Prepare implements [record.Control].
func (c *Client) Prepare(ctx context.Context, plan record.Plan) (record.Prepared, error) {
	var prepared record.Prepared
	data, err := encode("plan", plan, nil)
	if err != nil {
		return prepared, err
	}
	resp, err := c.stub.Prepare(ctx, &controlpb.PrepareRequest{Plan: data})
	if err != nil {
		return prepared, c.failure(ctx, "prepare", err)
	}
	return prepared, decode("prepared", resp.GetPrepared(), &prepared)
}

// Connect implements [record.Control].
func (c *Client) Connect(ctx context.Context, workers []record.RankWorkers) error {
	data, err := encode("workers", workers, nil)
	if err != nil {
		return err
	}
	_, err = c.stub.Connect(ctx, &controlpb.ConnectRequest{Workers: data})
	return c.failure(ctx, "connect", err)
}

// Overhead implements [record.Control].
func (c *Client) Overhead(ctx context.Context, d time.Duration) (record.Overhead, error) {
	var overhead record.Overhead
	resp, err := c.stub.Overhead(ctx, &controlpb.OverheadRequest{DurationNs: int64(d)})
	if err != nil {
		return overhead, c.failure(ctx, "overhead", err)
	}
	return overhead, decode("overhead", resp.GetOverhead(), &overhead)
}

// Probe implements [record.Control].
func (c *Client) Probe(ctx context.Context, probe record.Probe) (transport.Floor, error) {
	var floor transport.Floor
	data, err := encode("probe", probe, nil)
	if err != nil {
		return floor, err
	}
	resp, err := c.stub.Probe(ctx, &controlpb.ProbeRequest{Probe: data})
	if err != nil {
		return floor, c.failure(ctx, "probe", err)
	}
	return floor, decode("floor", resp.GetFloor(), &floor)
}

// Advance implements [record.Control]. It is bounded in time.
func (c *Client) Advance(ctx context.Context, to record.State) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := c.stub.Advance(ctx, &controlpb.AdvanceRequest{Stage: uint32(to)})
	return c.failure(ctx, "advance", err)
}

// Close implements [record.Control]. It is bounded in time.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := c.stub.Close(ctx, &controlpb.CloseRequest{})
	return c.failure(ctx, "close", err)
}

// Run implements [record.Control]. It keeps the stream open beyond the end of ctx: that end stops the
// phase, and the report of the short phase still comes, within
// stopTimeout.
func (c *Client) Run(ctx context.Context, phase record.Window, started func(), progress func(record.Progress)) (record.Report, error) {
	if err := ctx.Err(); err != nil {
		return record.Report{}, fmt.Errorf("run: %w", err)
	}
	data, err := encode("phase", phase, nil)
	if err != nil {
		return record.Report{}, err
	}
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.stopRun(streamCtx, cancel) })()

	stream, err := c.stub.Run(streamCtx, &controlpb.RunRequest{Phase: data})
	if err != nil {
		return record.Report{}, c.failure(ctx, "run", err)
	}
	var report *record.Report
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && report != nil:
			return *report, nil
		case errors.Is(err, io.EOF):
			return record.Report{}, c.lost(errors.New("run: the plugin sent no report"))
		case err != nil && report != nil:
			return *report, c.failure(ctx, "run", err)
		case err != nil:
			return record.Report{}, c.failure(ctx, "run", err)
		}
		switch e := event.GetEvent().(type) {
		case *controlpb.RunEvent_Started:
			started()
		case *controlpb.RunEvent_Progress:
			var p record.Progress
			if err := decode("progress", e.Progress, &p); err != nil {
				return record.Report{}, err
			}
			progress(p)
		case *controlpb.RunEvent_Report:
			report = &record.Report{}
			if err := decode("report", e.Report, report); err != nil {
				return record.Report{}, err
			}
		}
	}
}

// stopRun asks the rank to end its phase and gives up on the stream where no
// report follows in time. run is over when the stream's context is.
func (c *Client) stopRun(run context.Context, giveUp context.CancelFunc) {
	defer giveUp()
	ctx, cancel := context.WithTimeout(run, c.stopTimeout)
	defer cancel()
	if c.Advance(ctx, record.StateStopped) == nil {
		<-ctx.Done()
	}
}

// failure turns a status into the rank's own error, the end of ctx, or a lost
// connection.
func (c *Client) failure(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	if failure := failureOf(st); failure != nil {
		return failure
	}
	// gRPC's timer may fire before the context's own.
	if st.Code() == codes.DeadlineExceeded {
		return fmt.Errorf("%s: the plugin does not answer: %w", op, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	if st.Code() == codes.Unavailable || st.Code() == codes.Canceled {
		return c.lost(fmt.Errorf("%s: lost the plugin: %s", op, st.Message()))
	}
	return fmt.Errorf("%s: %s", op, st.Message())
}
