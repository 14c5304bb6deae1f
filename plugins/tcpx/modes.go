package tcpx

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/devmem"
	"transportbench/plugins/tcpx/internal/gpu"
)

// mode is a kind of bounce memory and the unpackers that it can be combined with.
type mode struct {
	name string
	// unpacks are the values of the option unpack that the mode allows. The first is
	// what auto stands for.
	unpacks []string
	// available returns nil, or an error that wraps [transport.ErrUnavailable].
	available func(*settings) error
	// newAllocator makes the bounce memory of one worker; nil for pages in the host.
	newAllocator func(*settings) (bounce.Allocator, error)
	options      []transport.Option
}

// Values of the option unpack.
const (
	unpackAuto       = "auto"
	unpackNone       = "none" // leaves the bytes in bounce memory, to show what unpacking costs
	unpackCPU        = "cpu"
	unpackKernel     = string(gpu.Kernel)
	unpackCopyEngine = string(gpu.CopyEngine)
)

// modeAuto takes the mode with the most hardware that this machine has.
const modeAuto = "auto"

// modes are in the order in which they are shown. The first is the default: a result must
// not depend on what hardware a machine happens to have.
var modes = []mode{
	{
		name:      "host",
		unpacks:   []string{unpackCPU, unpackNone},
		available: func(*settings) error { return nil },
	},
	{
		name:      modeGPU,
		unpacks:   []string{unpackKernel, unpackCopyEngine, unpackNone},
		available: gpuAvailable,
		options: []transport.Option{{
			Name: "gpu", Type: transport.TypeInt, Default: "0", Max: 1023,
			Help: "the GPU of mode gpu, as CUDA counts them",
		}, {
			Name: "send-memory", Type: transport.TypeString, Default: sendHost,
			Allowed: []string{sendHost, sendDevice},
			Help: "where the values are that a client sends: device is the GPU's memory, in mode " +
				"gpu, from which they are copied to the host a chunk at a time",
		}},
	},
	{
		name:         modeDevmem,
		unpacks:      []string{unpackCPU, unpackKernel, unpackCopyEngine, unpackNone},
		available:    devmemAvailable,
		newAllocator: newDmabuf,
		options: []transport.Option{
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
		},
	},
}

// Values of the option send-memory.
const (
	sendHost   = "host"
	sendDevice = "device"
)

const (
	modeGPU    = "gpu"
	modeDevmem = "devmem"
)

// resolveMode resolves the options mode and unpack. Auto takes the mode with the most
// hardware that allows the unpacker and can be opened here.
func (s *settings) resolveMode(name string) error {
	wanted := s.unpack
	var reasons []string
	for i := len(modes) - 1; i >= 0; i-- {
		m := &modes[i]
		if name != modeAuto && name != m.name {
			continue
		}
		s.mode, s.unpack = m, wanted
		if wanted == unpackAuto {
			s.unpack = m.unpacks[0]
		}
		if !slices.Contains(m.unpacks, s.unpack) {
			if name != modeAuto {
				return refuse("unpack", "mode %s has no %s; use one of %s", m.name, s.unpack,
					strings.Join(m.unpacks, ", "))
			}
			reasons = append(reasons, fmt.Sprintf("mode %s has no %s", m.name, s.unpack))
			continue
		}
		if name != modeAuto {
			return nil
		}
		err := m.available(s)
		if err == nil {
			s.autoNote = strings.Join(append([]string{m.name}, reasons...), "; ")
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return refuse("mode", "auto finds none: %s", strings.Join(reasons, "; "))
}

// describe adds what the mode opened to the properties.
func (s *settings) describe(p *transport.Properties) {
	if s.onGPU() {
		p.Libraries = map[string]string{"cuda": s.device.Driver}
		p.Notes["gpu"] = s.device.Device
		p.Notes["send_memory"] = s.options.String("send-memory")
	}
	if s.mode.name == modeDevmem {
		p.Notes["interface"] = s.options.String("interface")
		p.Notes["data_port"] = fmt.Sprint(s.dataPort)
	}
	if s.fault != faultNone {
		p.Notes["fault"] = s.fault
	}
	p.Chosen = map[string]string{}
	if s.autoNote != "" {
		p.Notes[transport.NoteAuto] = s.autoNote
		p.Chosen["mode"] = s.mode.name
	}
	if s.options.String("unpack") == unpackAuto {
		p.Chosen["unpack"] = s.unpack
		if s.autoNote == "" {
			p.Notes[transport.NoteAuto] = fmt.Sprintf(
				"unpack=%s is the first that mode %s has, of %s", s.unpack, s.mode.name,
				strings.Join(s.mode.unpacks, ", "))
		}
	}
	if s.zeroCopy == zeroCopyAuto {
		p.Chosen["zero-copy"] = zeroCopyOn
		if !s.zeroCopyTo(s.sock.Address) {
			p.Chosen["zero-copy"] = zeroCopyOff
		}
	}
	p.Integrity = "TCP's checksum"
	if s.sock.Address.IsLoopback() {
		p.Integrity = "none: the loopback computes no TCP checksum"
	}
}

// newBounce makes the bounce memory and the unpacker of a worker.
func (s *settings) newBounce() (memory bounce.Allocator, unpacker *bounce.Slots, err error) {
	if s.mode.newAllocator != nil {
		memory, err = s.mode.newAllocator(s)
	} else {
		memory, err = bounce.NewPages(s.request, s.peers)
	}
	if err != nil {
		return nil, nil, err
	}
	var u bounce.Unpacker
	if s.onGPU() || s.mode.name == modeGPU { // with unpack=none, too
		u, err = s.newGPU()
	} else {
		u = bounce.NewHost(s.unpackWorkers)
	}
	if err != nil {
		return nil, nil, errors.Join(err, memory.Close())
	}
	if s.launch == launchSync {
		u = &bounce.Synchronous{Unpacker: u}
	}
	unpacker, err = bounce.NewSlots(memory, u)
	return memory, unpacker, err
}

// openDevice opens a GPU; tests replace it.
var openDevice = func(ordinal int) (gpu.Device, error) {
	c, err := cuda.Open(cuda.Library, ordinal)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// onGPU reports whether a GPU unpacks, so that payloads stay in its memory.
func (s *settings) onGPU() bool { return s.unpack == unpackKernel || s.unpack == unpackCopyEngine }

// gpuAvailable opens the GPU and closes it, because only that shows that it works.
func gpuAvailable(s *settings) error {
	opened := make(chan error)
	go func() { // a CUDA context belongs to its thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		d, err := openDevice(s.options.Int("gpu"))
		if err == nil {
			s.device = d.Description()
			err = d.Close()
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		return transport.Unavailable(
			"mode gpu: %w; it needs NVIDIA's driver and a GPU, and mode host needs neither", err)
	}
	return nil
}

func (s *settings) newGPU() (bounce.Unpacker, error) {
	ordinal := s.options.Int("gpu")
	u, err := bounce.NewGPU(gpu.Config{
		Open:  func() (gpu.Device, error) { return openDevice(ordinal) },
		Mode:  gpu.Mode(s.unpack),
		Fault: gpu.Fault(s.fault),
		Sends: s.deviceSend,
	})
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", ordinal, err)
	}
	return u, nil
}

func (s *settings) dmabuf() *bounce.DmabufConfig {
	return &bounce.DmabufConfig{
		Interface: s.options.String("interface"), Queue: s.options.Int("queue"),
		Split:   s.options.Bool("header-split"),
		Request: s.request, Peers: s.peers, Patience: s.sock.Timeout, Steering: s.steering(),
		// The processor reads what the NIC has written, at least the header prefixes.
		Sync: s.unpack == unpackCPU || s.hostPrefix > 0,
	}
}

func devmemAvailable(s *settings) error {
	if err := devmem.Check(s.dmabuf().Options()); err != nil {
		return transport.Unavailable("mode devmem: %w", err)
	}
	if err := checkSteering(s); err != nil || !s.onGPU() {
		return err
	}
	return gpuAvailable(s)
}

// checkSteering refuses data sockets that no rule of a NIC can name.
func checkSteering(s *settings) error {
	if s.dataPort > 0 {
		return nil
	}
	return transport.Unavailable("mode devmem: data-port is 0, which takes another port each "+
		"time, and the NIC steers data sockets by their port; set data-port=5201, for example, "+
		"and then %s", s.steering())
}

// steering returns the command that steers data sockets to the queue. One end of each
// connection has its own port, the other end that of its peer.
func (s *settings) steering() string {
	flow, port, queue := "tcp4", "PORT", "N"
	if s.sock.Address.Is6() {
		flow = "tcp6"
	}
	if s.dataPort > 0 {
		port = fmt.Sprint(s.dataPort)
	}
	if chosen := s.options.Int("queue"); chosen >= 0 {
		queue = fmt.Sprint(chosen)
	}
	return fmt.Sprintf("ethtool -N %s flow-type %s dst-port %s queue %s, and again with src-port",
		s.options.String("interface"), flow, port, queue)
}

func newDmabuf(s *settings) (bounce.Allocator, error) {
	c := s.dmabuf()
	if size := c.Memory(); size > bounce.MaxDmabuf {
		return nil, refuse("request", "mode devmem needs %s of memory for %d peers, and the "+
			"limit is %s; use a smaller request",
			transport.FormatSize(int64(size)), s.peers, transport.FormatSize(bounce.MaxDmabuf))
	}
	b, err := devmem.Open(c.Options())
	if err != nil {
		return nil, fmt.Errorf("mode devmem, which needs a queue for each worker: %w", err)
	}
	return bounce.NewDmabuf(b, c), nil
}
