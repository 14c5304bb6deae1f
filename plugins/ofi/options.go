package ofi

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

// Names of options.
const (
	optionProvider = "provider"
	optionDomain   = "domain"
	optionEager    = "eager-limit"
	optionBound    = "progress-bound"
	optionWakeUp   = "wake-up"
	optionSilence  = "silence"
)

// providerAuto leaves the provider to the transport.
const providerAuto = "auto"

// schema lists the options.
var schema = []transport.Option{
	{
		Name: optionProvider, Type: transport.TypeString, Default: providerAuto,
		Help: "libfabric's provider: shm, tcp, udp, sockets, verbs, efa, cxi or another that " +
			"fi_info lists; auto takes RDMA hardware if there is some, else shm, and between " +
			"machines tcp",
	},
	{
		Name: optionDomain, Type: transport.TypeString, Default: "",
		Help: "libfabric's domain: the network interface or RDMA device, such as lo or mlx5_0; " +
			"empty takes the first one",
	},
	{
		Name: optionEager, Type: transport.TypeSize, Default: "8KiB", Min: 64, Max: 1 << 20,
		Help: "largest payload that is a plain message; a larger one is a tagged message into a " +
			"receive of its size",
	},
	{
		Name: optionBound, Type: transport.TypeInt, Default: "64", Min: 1, Max: 4096,
		Help: "limit of reads of the completion queue in one poll while nothing arrives",
	},
	{
		Name: optionWakeUp, Type: transport.TypeBool, Default: "false",
		Help: "lets threads park on the completion queue's descriptor (FI_WAIT_FD), with " +
			"providers that have one",
	},
	{
		Name: optionSilence, Type: transport.TypeDuration, Default: "10s",
		Min: int64(2 * time.Second), Max: int64(time.Hour),
		Help: "how long the host of a peer may be silent before the peer is lost; in whole " +
			"seconds, and not for provider shm",
	},
}

// providers are libfabric's providers of reliable datagrams, by its names.
var providers = []string{
	"shm", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets", "net", "net;ofi_rxm", "verbs;ofi_rxm",
	"verbs;ofi_rxd", "efa", "cxi",
	"psm3", "psm2", "opx",
}

// hardware are the providers that auto prefers to shm, the best first.
var hardware = []string{"cxi", "efa", "opx", "psm3", "psm2", "psm", "verbs;ofi_rxm"}

// capabilities are what the default options provide. They lack Ordered, because plain and tagged
// messages overtake each other.
var capabilities = transport.Capabilities{TellsPeerLost: true}

// Limits of the memory for large slots, per direction: of address space, and of pinned memory if
// the provider requires registration. There are at least two slots.
const (
	largeBytes  = 512 << 20
	pinnedBytes = 64 << 20
)

// settings is a checked transport.Config.
type settings struct {
	worker   fi.WorkerConfig
	provider string // requested
	crosses  bool   // as in [transport.Config]
	domain   string // requested; empty means the first
	silence  time.Duration
}

func resolve(cfg transport.Config) (*settings, error) {
	if err := control.CheckLimits(cfg, Driver{}.Info().Limits); err != nil {
		return nil, err
	}
	o := cfg.Options
	maximum := max(cfg.MaxPayload, 1)
	return &settings{
		worker: fi.WorkerConfig{
			Peers: max(cfg.Peers, 1), Window: max(cfg.InFlight, 1), MaxPayload: maximum,
			Small: min(o.Size(optionEager), maximum), LargeBytes: largeBytes,
			Bound: o.Int(optionBound), WakeUp: o.Bool(optionWakeUp),
		},
		provider: o.String(optionProvider),
		crosses:  cfg.Crosses,
		domain:   o.String(optionDomain),
		silence:  o.Duration(optionSilence),
	}, nil
}

// minUniverse is the least number of peers that libfabric is told to expect.
const minUniverse = 64

// Buffers of ofi_rxm: the bytes of one, and how many it posts on an RDMA device.
const (
	minBuffer, maxBuffer   = 1 << 10, 16 << 10
	minBuffers, maxBuffers = 1 << 7, 1 << 12
)

// environment returns libfabric's variables, which hold for a whole process. They disable the cache
// of registered memory, because its hooks in the C library's mmap do not see Go's calls. They
// disable needless warnings. They size completion queues for the peers of the run, because the
// default, 256 peers, is too many for some RDMA devices.
func (s *settings) environment() map[string]string {
	w := &s.worker
	variables := map[string]string{
		"FI_MR_CACHE_MONITOR": "disabled", "FI_LOG_PROV": "none",
		"FI_UNIVERSE_SIZE": strconv.Itoa(max(w.Peers, minUniverse)),
	}
	if s.provider != providerAuto && !strings.HasPrefix(s.provider, "verbs") {
		return variables
	}
	// With separate receives for each connection, ofi_rxm reposts one on a connection that it has
	// just closed, and ends the process (libfabric 1.17, github.com/ofiwg/libfabric/issues/11828).
	// Shared receives are pinned, so their size and number are only what the messages need, within
	// bounds.
	variables["FI_OFI_RXM_USE_SRX"] = "1"
	variables["FI_OFI_RXM_MSG_RX_SIZE"] = strconv.Itoa(min(max(2*w.Peers*w.Window, minBuffers),
		maxBuffers))
	if need := w.MaxPayload + amlib.HeaderSize; need < maxBuffer {
		size := strconv.Itoa(max((need+63)/64*64, minBuffer))
		variables["FI_OFI_RXM_BUFFER_SIZE"], variables["FI_OFI_RXM_EAGER_LIMIT"] = size, size
	}
	return variables
}

// fit adapts the settings to the interface of libfabric that was chosen.
func (s *settings) fit(f *fi.Interface) error {
	if need := uint64(s.worker.MaxPayload) + amlib.HeaderSize; need > f.MaxMessage {
		return fmt.Errorf("%w: payload of %d bytes and a header of %d, the largest message of "+
			"provider %s is %d bytes",
			transport.ErrTooLarge, s.worker.MaxPayload, amlib.HeaderSize, f.Provider, f.MaxMessage)
	}
	if f.Pins() {
		s.worker.LargeBytes = pinnedBytes
	}
	return nil
}

// refuse returns the error for an option value that libfabric does not support here.
func refuse(option, format string, args ...any) error {
	return fmt.Errorf("%w: %w", transport.ErrUnavailable,
		&transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)})
}

// choose opens the list of interfaces and returns the index of the requested one.
func (s *settings) choose() (l *fi.List, index int, err error) {
	name := s.provider
	if name == providerAuto {
		name = ""
	}
	if l, err = fi.NewList(name); err != nil {
		return nil, 0, s.explain(err)
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	found := l.Interfaces
	if name == "" {
		name = best(found, s.crosses)
	}
	// A name may leave out the layer above: tcp means tcp;ofi_rxm. An exact match wins.
	var provider string
	for i := range found {
		if full := found[i].Provider; full == name || provider == "" &&
			strings.HasPrefix(full, name+";") {
			provider = full
		}
		if provider == name {
			break
		}
	}
	index, domains := -1, []string(nil)
	for i := range found {
		f := &found[i]
		if f.Provider != provider {
			continue
		}
		if !slices.Contains(domains, f.Domain) {
			domains = append(domains, f.Domain)
		}
		if (s.domain == "" || s.domain == f.Domain) &&
			(index < 0 || rank(f) < rank(&found[index])) {
			index = i
		}
	}
	switch {
	case provider == "":
		err = s.explain(&fi.Error{Code: fi.ErrNoData})
	case index < 0:
		err = refuse(optionDomain, "provider %s has no domain %q here; it has %s%s", provider,
			s.domain,
			strings.Join(domains, ", "), suggest.For(s.domain, domains))
	}
	return l, index, err
}

// best returns the provider that auto takes; crosses is as in [transport.Config].
func best(found []fi.Interface, crosses bool) string {
	for _, name := range hardware {
		if slices.ContainsFunc(found, func(f fi.Interface) bool { return f.Provider == name }) {
			return name
		}
	}
	if crosses {
		return "tcp"
	}
	return "shm"
}

// rank orders the interfaces of a provider: those at an IPv4 address first, those at an address
// that needs a scope last.
func rank(f *fi.Interface) int {
	at := addressOf(f)
	switch {
	case f.Format != fi.FormatInet6:
		return 0
	case at.IsValid() && !at.IsLinkLocalUnicast():
		return 1
	}
	return 2
}

// explain returns an error that lists the available providers if the requested one is missing.
func (s *settings) explain(err error) error {
	var code *fi.Error
	if !errors.As(err, &code) || code.Code != fi.ErrNoData {
		return transport.Unavailable("libfabric %s does not start: %w", fi.Version(), err)
	}
	var names []string
	if l, err := fi.NewList(""); err == nil {
		defer l.Close()
		for i := range l.Interfaces {
			if name := l.Interfaces[i].Provider; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	filter := ""
	if value := os.Getenv("FI_PROVIDER"); value != "" {
		filter = fmt.Sprintf(" with FI_PROVIDER=%s", value)
	}
	return refuse(optionProvider, "libfabric %s has no provider %q here%s; it has %s%s",
		fi.Version(), s.provider, filter,
		strings.Join(names, ", "), suggest.For(s.provider, names))
}
