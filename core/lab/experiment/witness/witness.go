package witness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Load is what a witness has to measure.
type Load struct {
	// Transport, Provider and Medium are those of the run. SHA256 is that of the plugin, by which
	// another host finds what the transport declares.
	Transport string `json:"transport"`
	SHA256    string `json:"sha256,omitempty"`
	Provider  string `json:"provider"`
	Medium    string `json:"medium"`
	// Bound and Streams are the options of these roles, or empty.
	Bound   string `json:"bound,omitempty"`
	Streams string `json:"streams,omitempty"`
	// Size is the number of payload bytes of the larger message of a call, Smaller that of the
	// other, and InFlight the calls that a client and a daemon have in flight.
	Size     int `json:"size"`
	Smaller  int `json:"smaller"`
	InFlight int `json:"in_flight"`
	// Address is the IP address of the daemon's host; empty if the client is there, too.
	Address string `json:"address,omitempty"`
	Daemon  End    `json:"daemon"`
	Client  End    `json:"client"`
}

// End is the place of one end of a pair on its host.
type End struct {
	CPU int `json:"cpu"` // -1 for any
	// Reference is that of the rank's properties.
	Reference map[string]string `json:"reference,omitempty"`
}

// Witness is a tool and how it is run.
type Witness struct {
	tool     *transport.Reference
	load     Load
	daemon   Host
	client   Host
	version  string
	patience time.Duration // with one reading
	lines    [2][]string   // the last command lines, of the server and of the client
}

// Find returns the witness of a load between two hosts, or the reason why there is none, in one
// line with the remedy. references are what the transport declares.
func Find(ctx context.Context, references []transport.Reference, load Load, daemon, client Host) (
	w *Witness, missing string,
) {
	r, err := referenceFor(references, &load)
	if err != nil {
		return nil, err.Error()
	}
	w = &Witness{tool: r, load: load, daemon: daemon, client: client, patience: patience}
	for _, host := range []Host{daemon, client} {
		found, err := host.Witness(ctx, Request{Step: StepFind, Load: load})
		if err != nil {
			return nil, err.Error()
		}
		if w.version != "" && w.version != found.Version {
			return nil, fmt.Sprintf("%s is of version %s on one host and of %s on the other: "+
				"install the same", r.Tool, w.version, found.Version)
		}
		w.version = found.Version
	}
	return w, ""
}

// referenceFor returns the benchmark that measures a load.
func referenceFor(declared []transport.Reference, load *Load) (*transport.Reference, error) {
	for _, list := range [][]transport.Reference{declared, media} {
		for i := range list {
			if measures(&list[i], load) {
				return &list[i], nil
			}
		}
	}
	return nil, errors.New("none is known for " + load.describe())
}

// Expected returns about how long it takes to find the witness of a load, and one reading of it:
// the longest of the installed tools that may be it, because what the transport is opened on is not
// known before a run.
func Expected(references []transport.Reference, load Load) (find, reading time.Duration) {
	over := []string{transport.MediumMemory}
	if load.Bound != "" {
		over = append(over, transport.MediumUDP, transport.MediumTCP)
	}
	if devices, _ := os.ReadDir("/sys/class/infiniband"); len(devices) > 0 {
		over = append(over, transport.MediumVerbs)
	}
	for _, load.Medium = range over {
		r, err := referenceFor(references, &load)
		if err != nil {
			continue
		}
		if _, err := exec.LookPath(r.Tool); err == nil {
			find, reading = findTime, max(reading, r.Takes)
		}
	}
	return find, reading
}

// Expected returns about how long a reading takes; 0 without a witness.
func (w *Witness) Expected() time.Duration {
	if w == nil {
		return 0
	}
	return w.tool.Takes
}

func (l *Load) describe() string {
	over := cmp.Or(l.Medium, l.Provider)
	if l.InFlight > 1 {
		return fmt.Sprintf("%d messages in flight of %s over %s", l.InFlight, l.Transport, over)
	}
	return fmt.Sprintf("round trips of %s over %s", l.Transport, over)
}

// Result returns the tool, its version and its last command lines.
func (w *Witness) Result() *result.Witness {
	return &result.Witness{Tool: w.tool.Tool, Version: w.version, Server: slices.Clone(w.lines[0]),
		Client: slices.Clone(w.lines[1])}
}

// patience bounds a reading. The server of a tool takes a moment until it listens, so the client is
// started again until then.
const (
	patience = 20 * time.Second
	again    = 20 * time.Millisecond
)

// restTime bounds the wait for the end of commands that were told to end.
const restTime = 5 * time.Second

var errServerEnded = errors.New("its server has ended")

// Measure takes one reading, which takes up to about a second: a round trip, or with several
// messages in flight the time per message. No process is left when it returns.
func (w *Witness) Measure(ctx context.Context) (transport.Floor, error) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	request := Request{Load: w.load}
	ask := func(ctx context.Context, host Host, step Step) (Reply, error) {
		request := request
		request.Step = step
		return host.Witness(ctx, request)
	}
	found, err := ask(ctx, w.daemon, StepPort)
	if err != nil {
		return transport.Floor{}, err
	}
	request.Port = found.Port
	w.lines[0], w.lines[1] = lines(w.tool, &request.Load, request.Port)

	serving, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		// it was told to end, has ended with its client, or refuses its options
		_, _ = ask(serving, w.daemon, StepServe)
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
		for _, host := range []Host{w.daemon, w.client} {
			rest, cancel := context.WithTimeout(context.WithoutCancel(whole), restTime)
			_, _ = ask(rest, host, StepRest)
			cancel()
		}
	}()
	var last error // that is not of the timeout
	for {
		reply, err := ask(ctx, w.client, StepCall)
		if err == nil {
			return reply.Reading, enough(reply.Reading)
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ended:
			if ctx.Err() == nil {
				return transport.Floor{}, fmt.Errorf("%w; %w", last, errServerEnded)
			}
		case <-time.After(again):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return transport.Floor{}, ctx.Err()
			}
			if last == nil {
				last = fmt.Errorf("%s did not end", w.tool.Tool)
			}
			return transport.Floor{}, fmt.Errorf("%w; it had %v", last, w.patience)
		}
	}
}

// minSamples is the least number of messages of a reading: of fewer, one disturbance is all of
// it.
const minSamples = 10

func enough(f transport.Floor) error {
	if f.Samples < minSamples {
		return fmt.Errorf("%s: %d messages are too few for a reading", f.Name, f.Samples)
	}
	return nil
}
