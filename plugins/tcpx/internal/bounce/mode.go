package bounce

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/gpu"
)

// Values of the option unpack.
const (
	UnpackAuto       = "auto" // the first that the mode has
	UnpackNone       = "none" // leaves the bytes in bounce memory, to show what unpacking costs
	UnpackCPU        = "cpu"
	unpackKernel     = string(gpu.Kernel)
	unpackCopyEngine = string(gpu.CopyEngine)
)

// Faults of a GPU's unpacker: mistakes made on purpose, to see that they are caught.
const (
	FreshStreams = string(gpu.FreshStreams) // streams are made per request; Close fails
	EarlyConsume = string(gpu.EarlyConsume) // pages are given back too early; bytes are wrong
	EarlySend    = string(gpu.EarlySend)    // copies are reported too early; bytes are wrong
)

// Values of the option mode.
const (
	// ModeAuto takes the mode with the most hardware that this machine has.
	ModeAuto   = "auto"
	modeHost   = "host"
	modeGPU    = "gpu"
	modeDevmem = "devmem"
)

// Values of the option send-memory.
const (
	sendHost   = "host"
	sendDevice = "device"
)

// Values of the option dmabuf-memory.
const (
	dmabufHost   = "host"
	dmabufDevice = "device"
)

// mode is a kind of bounce memory and the unpackers that it can be combined with.
type mode struct {
	name      string
	unpacks   []string // values of the option unpack; the first is what auto stands for
	available func(*Setup) error
}

// modes are in the order in which they are shown. The first is the default: a result must not
// depend on what hardware a machine happens to have.
var modes = []mode{
	{modeHost, []string{UnpackCPU, UnpackNone}, func(*Setup) error { return nil }},
	{modeGPU, []string{unpackKernel, unpackCopyEngine, UnpackNone}, (*Setup).gpuAvailable},
	{modeDevmem, []string{UnpackCPU, unpackKernel, unpackCopyEngine, UnpackNone},
		(*Setup).devmemAvailable},
}

// Modes returns the values of the option mode without auto, the default first.
func Modes() (names []string) {
	for i := range modes {
		names = append(names, modes[i].name)
	}
	return names
}

// Unpackers returns the values of the option unpack, the default first.
func Unpackers() []string {
	kinds := []string{UnpackAuto}
	for i := range modes {
		for _, kind := range modes[i].unpacks {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// Options are the options of single modes.
var Options = []transport.Option{
	{
		Name: "gpu", Type: transport.TypeInt, Default: "0", Max: 1023,
		Help: "the GPU of mode gpu, as CUDA counts them",
	},
	{
		Name: "send-memory", Type: transport.TypeString, Default: sendHost,
		Allowed: []string{sendHost, sendDevice},
		Help: "where the values are that a client sends: device is the memory of the GPU that " +
			"unpacks; in mode gpu they are copied to the host a chunk at a time, in mode devmem " +
			"the NIC sends from there",
	},
	{
		Name: "dmabuf-memory", Type: transport.TypeString, Default: dmabufHost,
		Allowed: []string{dmabufHost, dmabufDevice},
		Help: "where the NIC of mode devmem puts payloads: device is the memory of the GPU that " +
			"unpacks",
	},
	{
		Name: "interface", Type: transport.TypeString, Default: "",
		Help: "the NIC of mode devmem, such as eth0",
	},
	{
		Name: "queue", Type: transport.TypeInt, Default: "-1", Min: -1, Max: 1 << 16,
		Help: "receive queue that the flows of mode devmem are steered to; -1 for the last",
	},
	{
		Name: "header-split", Type: transport.TypeBool, Default: "false",
		Help: "in mode devmem turn header split of the NIC on, and off again at the end; " +
			"otherwise it must be on",
	},
}

// Resolve resolves the options mode, unpack, send-memory and dmabuf-memory. Mode auto takes the
// mode with the most hardware that allows the unpacker and can be opened here.
func (s *Setup) Resolve(options transport.Values) error {
	s.options = options
	s.DeviceSend = options.String("send-memory") == sendDevice
	if err := s.resolveMode(options.String("mode"), options.String("unpack")); err != nil {
		return err
	}
	s.DeviceDmabuf = options.String("dmabuf-memory") == dmabufDevice
	if s.DeviceDmabuf && (!s.ByNIC() || s.Unpack != unpackKernel) {
		return refuse("dmabuf-memory",
			"device needs mode=devmem with unpack=kernel, and this is mode=%s with unpack=%s",
			s.mode.name, s.Unpack)
	}
	return nil
}

func (s *Setup) resolveMode(name, unpack string) error {
	var reasons []string
	for i := len(modes) - 1; i >= 0; i-- {
		m := &modes[i]
		if name != ModeAuto && name != m.name {
			continue
		}
		s.mode, s.Unpack = m, unpack
		if unpack == UnpackAuto {
			s.Unpack = m.unpacks[0]
		}
		var err error
		switch {
		case !slices.Contains(m.unpacks, s.Unpack):
			err = refuse("unpack", "mode %s has no %s; use one of %s", m.name, s.Unpack,
				strings.Join(m.unpacks, ", "))
		case s.DeviceSend && !s.OnGPU():
			err = refuse("send-memory", "device needs mode=gpu or mode=devmem with a GPU that "+
				"unpacks, and this is mode=%s with unpack=%s", m.name, s.Unpack)
		case name == ModeAuto:
			err = m.available(s)
		}
		if name != ModeAuto {
			return err
		}
		if err == nil {
			s.AutoNote = strings.Join(append([]string{m.name}, reasons...), "; ")
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return refuse("mode", "auto finds none: %s", strings.Join(reasons, "; "))
}

// Describe adds what the mode opened to the properties of a transport.
func (s *Setup) Describe(p *transport.Properties) {
	if s.OnGPU() {
		p.Libraries = map[string]string{"cuda": s.device.Driver}
		p.Notes["gpu"] = s.device.Device
		p.Notes["send_memory"] = s.options.String("send-memory")
	}
	if s.ByNIC() {
		p.Notes["interface"] = s.NIC()
		p.Notes["dmabuf_memory"] = s.options.String("dmabuf-memory")
		p.Notes["data_port"] = fmt.Sprint(s.DataPort)
	}
	if s.AutoNote != "" {
		p.Notes[transport.NoteAuto] = s.AutoNote
		p.Chosen["mode"] = s.mode.name
	}
	if s.options.String("unpack") == UnpackAuto {
		p.Chosen["unpack"] = s.Unpack
		if s.AutoNote == "" {
			p.Notes[transport.NoteAuto] = fmt.Sprintf(
				"unpack=%s is the first that mode %s has, of %s", s.Unpack, s.mode.name,
				strings.Join(s.mode.unpacks, ", "))
		}
	}
}

func refuse(option, format string, args ...any) error {
	return &transport.OptionError{Option: option, Problem: fmt.Sprintf(format, args...)}
}
