package ucxam

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"transportbench/core"
	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

const (
	name = control.Name("ucxam")

	maxPayload = 256 << 20
	maxPeers   = 1024

	// headerReserve is the most bytes that UCX needs for its own headers.
	headerReserve = 128
)

// needs is the shared memory that a worker takes, measured with UCX 1.13.
var needs = transport.Needs{WorkerFiles: 8, WorkerMemory: 5 << 20}

// missing is the reason why a build without UCX cannot open the driver, else empty.
const missing = ucp.Missing

// Driver opens the transport over UCX.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary: "UCX active messages over shared memory, TCP or RDMA",
		Choose:  "to run everywhere: UCX finds the path over memory, TCP or any RDMA device",
		Groups: []transport.Group{transport.GroupRDMA, transport.GroupSockets,
			transport.GroupMemory},
		Providers:    providers,
		Capabilities: capabilities,
		Limits: transport.Limits{MaxPayload: maxPayload,
			InlineSize: smallPayload - amlib.HeaderSize - headerReserve, Peers: maxPeers},
		Needs:       needs,
		Options:     schema,
		References:  references,
		Roles:       transport.Roles{Device: optionDevices},
		Unavailable: missing,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	e, err := openEndpoint(ctx, cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	return e, nil
}

// endpoint is the open transport of one process: a UCX context and its workers.
type endpoint struct {
	settings *settings
	context  *ucp.Context
	lane     lane
	eager    int // bytes
	workers  *control.Workers[*worker]
	reaper   control.Reaper
	control.Registrations
}

// openEndpoint opens UCX and determines the lane.
func openEndpoint(ctx context.Context, cfg transport.Config) (*endpoint, error) {
	if missing != "" {
		return nil, transport.Unavailable("%s", missing)
	}
	s, err := resolve(cfg, ucp.Environ())
	if err != nil {
		return nil, err
	}
	e := &endpoint{settings: s, eager: min(s.worker.Eager, s.worker.MaxPayload),
		workers: control.NewWorkers[*worker](name, cfg.Workers)}
	if e.context, err = s.openContext(ctx); err != nil {
		return nil, s.explain(err)
	}
	if err = s.checkResources(e.context.Info()); err == nil {
		if e.lane, err = s.trialLane(e.context); err == nil {
			err = s.checkLane(e.lane)
		}
	}
	if err != nil {
		e.context.Close()
		return nil, err
	}
	return e, nil
}

// UCX has no device for an interface whose link is down. The link may come back: openContext waits
// for it for linkWait.
const (
	linkWait  = 5 * time.Second
	linkEvery = 50 * time.Millisecond
)

func (s *settings) openContext(ctx context.Context) (*ucp.Context, error) {
	for began := time.Now(); ; {
		c, err := ucp.Open(s.checked, s.others, s.wakeUp, s.workers > 1)
		var status *ucp.Status
		devices := s.variables["NET_DEVICES"]
		if !errors.As(err, &status) || status.Code != ucp.StatusNoDevice || !linkDown(devices) {
			return c, err
		}
		if time.Since(began) > linkWait {
			return nil, refuse(optionDevices, "%s: the link has been down for %v", devices,
				linkWait)
		}
		select {
		case <-time.After(linkEvery):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// linkDown reports whether a value of UCX_NET_DEVICES names an interface whose link is down.
func linkDown(devices string) bool {
	for item := range strings.SplitSeq(devices, ",") {
		if i, err := net.InterfaceByName(item); err == nil && i.Flags&net.FlagRunning == 0 {
			return true
		}
	}
	return false
}

// trialLanes caches the lanes of this process's trial connections, keyed by everything that they
// depend on, because a trial needs two workers with all their memory.
var trialLanes sync.Map

// trialLane returns the lane that UCX chooses between two workers.
func (s *settings) trialLane(c *ucp.Context) (lane, error) {
	// UCX's transport self connects a worker only to itself, not to a second worker.
	if names, all := requested(s.tls); !all && len(names) == 1 && names[0] == "self" {
		return lane{"self", "memory0"}, nil
	}
	key := fmt.Sprint(s.variables, s.wakeUp, s.worker.PeerErrors)
	if known, ok := trialLanes.Load(key); ok {
		return known.(lane), nil
	}
	info, err := c.TrialConnect(s.worker.PeerErrors)
	if err != nil {
		return lane{}, s.explain(err)
	}
	l, err := laneOf(info)
	if err == nil {
		trialLanes.Store(key, l)
	}
	return l, err
}

// explain adds the option to which an error of UCX refers, if it is known.
func (s *settings) explain(err error) error {
	var setting *ucp.SettingError
	var status *ucp.Status
	switch {
	case errors.As(err, &setting):
		return &transport.OptionError{Option: optionOf(setting.Setting.Name),
			Problem: setting.Error()}
	case !errors.As(err, &status):
		return err
	case status.Code == ucp.StatusNoDevice:
		option := optionTLS
		if _, ok := s.variables["NET_DEVICES"]; ok {
			option = optionDevices
		}
		return refuse(option, "UCX has no usable device for UCX_TLS=%s on UCX_NET_DEVICES=%s: %v",
			s.tlsInForce(), s.inForce("NET_DEVICES"), err)
	case status.Code == ucp.StatusUnreachable && s.worker.PeerErrors:
		return refuse(optionTLS, "no transport of UCX_TLS=%s reaches another worker and reports "+
			"lost peers, as error-handling=%s requires: %v",
			s.tlsInForce(), errorsPeer, err)
	case status.Code == ucp.StatusUnreachable:
		return refuse(optionTLS, "no transport of UCX_TLS=%s reaches another worker: %v",
			s.tlsInForce(), err)
	case !shm.HasRoom(uint64(needs.WorkerMemory)):
		return refuse(optionTLS, "UCX %s with UCX_TLS=%s does not start, and %s is full or "+
			"read-only; enlarge it (mount -o remount,size=1G %[3]s; docker run --shm-size=1g), "+
			"or use tcp: %v",
			ucp.Version(), s.tlsInForce(), shm.NamedDir, err)
	default:
		return transport.Unavailable(
			"UCX %s with UCX_TLS=%s does not start; see UCX's messages in the log: %w",
			ucp.Version(), s.tlsInForce(), err)
	}
}

// refuse returns the error for an option value that UCX does not support here.
func refuse(option, format string, args ...any) error {
	return fmt.Errorf("%w: %w", transport.ErrUnavailable,
		&transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)})
}

// inForce returns the value of a UCX variable.
func (s *settings) inForce(variable string) string {
	if value, ok := s.variables[variable]; ok {
		return value
	}
	return knownVariables()[variable]
}

// Properties implements [transport.Transport]. The lane is the trial connection's;
// Connect refuses any other.
func (e *endpoint) Properties() transport.Properties {
	s := e.settings
	notes := map[string]string{"lane": e.lane.String()}
	for variable, value := range s.variables {
		notes[prefix+variable] = value
	}
	p := transport.Properties{
		Provider:     e.lane.transport,
		Medium:       e.lane.medium(),
		Capabilities: s.capabilities(),
		Limits: transport.Limits{MaxPayload: s.worker.MaxPayload, InlineSize: e.eager,
			Peers: maxPeers},
		Libraries: map[string]string{"ucx": ucp.Version()},
		Notes:     notes,
		Integrity: "none",
		Uncounted: "UCX",
		Reference: s.reference(),
	}
	if p.Medium == transport.MediumTCP {
		p.Integrity = "TCP's checksum"
	} else if p.Medium == transport.MediumVerbs {
		p.Integrity = "the device's checksum of each packet (ICRC)"
	}
	// UCX chooses a transport unless exactly one is allowed; the provider names that choice.
	if names, all := requested(s.tlsInForce()); all || len(names) != 1 ||
		len(expand(names[0])) != 1 {
		p.Chosen = map[string]string{optionTLS: e.lane.transport}
		notes[transport.NoteAuto] = fmt.Sprintf(
			"UCX chose %s of UCX_TLS=%s for a connection between two workers of this process",
			e.lane, s.tlsInForce())
	}
	return p
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	w, err := e.workers.New(index, func() (*worker, error) { return newWorker(e) })
	if err != nil || !e.settings.wakeUp {
		return w, err
	}
	own := w.(*worker)
	return waitingWorker{own, amlib.Waiter{W: &own.Worker}}, nil
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		err := control.Each(workers, (*worker).Close)
		return errors.Join(err, e.release(workers))
	})
}

// release frees the closed workers and the context.
func (e *endpoint) release(workers []*worker) error {
	e.reaper.Stop()
	err := control.Each(workers, (*worker).destroy)
	e.context.Close()
	return err
}
