package ofi

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"transportbench/core"
	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

const (
	name = control.Name("ofi")

	maxPayload = 256 << 20
	maxPeers   = 1024
	// shmPeers is SMR_MAX_PEERS of libfabric, the peers of one endpoint of provider shm.
	shmPeers = 256
)

// needs is the shared memory that a worker takes, measured with libfabric 1.17.
var needs = transport.Needs{WorkerFiles: 16, PeerFiles: 3, WorkerMemory: 16 << 20}

// missing is the reason why a build without libfabric cannot open the driver, else empty.
const missing = fi.Missing

// Driver opens the transport over libfabric.
type Driver struct{}

var _ transport.Driver = Driver{}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary: "libfabric's reliable datagrams over shared memory, TCP, UDP or RDMA",
		Choose: "for the fabrics that only libfabric reaches (EFA, Slingshot), or to " +
			"compare it with UCX",
		Groups: []transport.Group{transport.GroupRDMA, transport.GroupSockets,
			transport.GroupMemory},
		Providers:    providers,
		Capabilities: capabilities,
		Limits:       transport.Limits{MaxPayload: maxPayload, Peers: maxPeers},
		Needs:        needs,
		Options:      schema,
		References:   references,
		Roles:        transport.Roles{Provider: optionProvider, Device: optionDomain},
		Unavailable:  missing,
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	e, err := openEndpoint(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	return e, nil
}

// endpoint is the open transport of one process: an interface of libfabric and its workers.
type endpoint struct {
	settings *settings
	fabric   fi.Interface
	context  *fi.Context
	workers  *control.Workers[*worker]
	watcher  *shm.Watcher
	reaper   control.Reaper
	control.Registrations
}

var prepared sync.Once

// prepare sets the variables that libfabric reads in the first Open of a process. Values that the
// user has set win.
func prepare(s *settings) {
	prepared.Do(func() {
		for variable, value := range s.environment() {
			if _, ok := os.LookupEnv(variable); !ok {
				_ = os.Setenv(variable, value) // C's environment too
			}
		}
	})
}

func openEndpoint(cfg transport.Config) (*endpoint, error) {
	if missing != "" {
		return nil, transport.Unavailable("%s", missing)
	}
	s, err := resolve(cfg)
	if err != nil {
		return nil, err
	}
	prepare(s)
	l, index, err := s.choose()
	if err != nil {
		return nil, err
	}
	defer l.Close()
	e := &endpoint{settings: s, fabric: l.Interfaces[index],
		workers: control.NewWorkers[*worker](name, cfg.Workers)}
	if err := s.fit(&e.fabric); err != nil {
		return nil, err
	}
	if e.fabric.Provider == "shm" && cfg.Peers > shmPeers {
		return nil, fmt.Errorf("%w: %d peers per worker, the limit of provider shm is %d",
			transport.ErrUnsupported, cfg.Peers, shmPeers)
	}
	if e.context, err = l.Open(index); err != nil {
		return nil, e.explain(err)
	}
	if e.watcher, err = shm.NewWatcher(); err != nil {
		e.context.Close()
		return nil, err
	}
	if e.medium() == transport.MediumMemory {
		startSharing()
	}
	if !s.worker.WakeUp {
		return e, nil
	}
	// Only an open completion queue shows whether the provider supports descriptors.
	trial, err := e.newLibraryWorker(0)
	if err == nil {
		if trial.Descriptor() < 0 {
			err = e.noDescriptor()
		}
		trial.Destroy()
	}
	if err != nil {
		return nil, errors.Join(err, e.release(nil))
	}
	return e, nil
}

func (e *endpoint) noDescriptor() error {
	return refuse(optionWakeUp, "provider %s of libfabric %s has no descriptor to wait on "+
		"(FI_WAIT_FD); use provider tcp, or leave it out",
		e.fabric.Provider, fi.Version())
}

// newLibraryWorker returns a worker of libfabric, whose errors name the remedy.
func (e *endpoint) newLibraryWorker(nonce uint64) (*fi.Worker, error) {
	endpointName := ""
	if e.fabric.Provider == "shm" {
		// libfabric would end with SIGBUS.
		if !shm.HasRoom(uint64(needs.WorkerMemory)) {
			return nil, refuse(optionProvider, "%s has no room for %d MiB more, which a worker "+
				"of provider shm takes; enlarge it (mount -o remount,size=1G %[1]s; docker run "+
				"--shm-size=1g), or use tcp",
				shm.NamedDir, needs.WorkerMemory>>20)
		}
		directory, err := filepath.Rel(shm.NamedDir, shm.Dir())
		if err != nil {
			return nil, err
		}
		endpointName = fi.SharedMemoryName(
			filepath.Join(directory, fmt.Sprintf("transportbench-ofi-%d-%x", os.Getpid(), nonce)))
	}
	w, err := e.context.NewWorker(e.settings.worker, nonce, endpointName)
	if err != nil {
		return nil, e.explain(err)
	}
	return w, nil
}

// explain names the provider in an error of libfabric.
func (e *endpoint) explain(err error) error {
	var code *fi.Error
	if errors.As(err, &code) && code.Code == fi.ErrNoSystem && e.settings.worker.WakeUp {
		return e.noDescriptor()
	}
	if code != nil && code.Code == fi.ErrNoMemory && e.fabric.Pins() {
		return transport.Unavailable("provider %s of libfabric %s could not register the memory "+
			"of messages on %s; raise the limit of locked memory (ulimit -l unlimited): %w",
			e.fabric.Provider, fi.Version(), e.fabric.Domain, err)
	}
	return transport.Unavailable("provider %s of libfabric %s does not start on %s; "+
		"FI_LOG_PROV=%s in the environment shows its messages: %w",
		e.fabric.Provider, fi.Version(), e.fabric.Domain, strings.ReplaceAll(e.fabric.Provider, ";",
			","), err)
}

// core returns the provider without the layer above it.
func (e *endpoint) core() string {
	core, _, _ := strings.Cut(e.fabric.Provider, ";")
	return core
}

// medium returns the medium of the provider, or "".
func (e *endpoint) medium() string {
	switch e.core() {
	case "shm":
		return transport.MediumMemory
	case "tcp", "net", "sockets":
		return transport.MediumTCP
	case "udp":
		return transport.MediumUDP
	case "verbs":
		return transport.MediumVerbs
	}
	return ""
}

// presenceAddress returns the address of the presences of workers. It is not valid if all peers are
// on this host.
func (e *endpoint) presenceAddress() netip.Addr {
	if e.medium() == transport.MediumMemory {
		return netip.Addr{}
	}
	if at := addressOf(&e.fabric); at.IsValid() && !at.IsLinkLocalUnicast() {
		return at
	}
	return hostAddress()
}

// Properties implements [transport.Transport].
func (e *endpoint) Properties() transport.Properties {
	s, f := e.settings, &e.fabric
	p := transport.Properties{
		Provider:     f.Provider,
		Medium:       e.medium(),
		Capabilities: transport.Capabilities{TellsPeerLost: true, Waits: s.worker.WakeUp},
		Limits: transport.Limits{MaxPayload: maxPayload,
			InlineSize: min(max(f.Inject-amlib.HeaderSize, 0), s.worker.Small), Peers: maxPeers},
		Libraries: map[string]string{"libfabric": fi.Version()},
		Notes: map[string]string{
			"provider version": f.Version, "fabric": f.Fabric, "domain": f.Domain,
			"endpoint": f.Endpoint, "protocol": f.Protocol,
			"inject size": strconv.Itoa(f.Inject), "transmit queue": strconv.Itoa(f.Sends),
			"receive queue": strconv.Itoa(f.Receives),
		},
		Integrity: "none",
		Uncounted: "libfabric",
	}
	p.Limits.MaxPayload = s.worker.MaxPayload
	if modes := f.MRModes(); len(modes) > 0 {
		p.Notes["memory registration"] = strings.Join(modes, ", ")
	}
	for _, entry := range os.Environ() {
		if variable, value, _ := strings.Cut(entry, "="); strings.HasPrefix(variable, "FI_") {
			p.Notes[variable] = value
		}
	}
	switch p.Medium {
	case transport.MediumMemory:
		p.Limits.Peers = shmPeers
	case transport.MediumTCP:
		p.Integrity = "TCP's checksum"
	case transport.MediumUDP:
		p.Integrity = "UDP's checksum"
	case transport.MediumVerbs:
		p.Integrity = "the device's checksum of each packet (ICRC)"
	}
	if s.provider == providerAuto {
		p.Chosen = map[string]string{optionProvider: f.Provider}
		if slices.Contains(hardware, f.Provider) {
			p.Notes[transport.NoteAuto] = f.Provider +
				" is the first that libfabric finds here of " + strings.Join(hardware, ", ")
		} else {
			p.Notes[transport.NoteAuto] = f.Provider + " because libfabric finds none here of " +
				strings.Join(hardware, ", ")
		}
	}
	return p
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	w, err := e.workers.New(index, func() (*worker, error) { return newWorker(e) })
	if err != nil || !e.settings.worker.WakeUp {
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

// release frees the closed workers and the interface.
func (e *endpoint) release(workers []*worker) error {
	e.reaper.Stop()
	e.watcher.Close()
	err := control.Each(workers, (*worker).release)
	free := func() {
		for _, w := range workers {
			w.library.Destroy()
		}
		e.context.Close()
	}
	if e.medium() == transport.MediumMemory {
		stopSharing(free)
	} else {
		free()
	}
	return err
}
