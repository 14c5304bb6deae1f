package bounce

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/cuda"
	"transportbench/plugins/tcpx/internal/devmem"
	"transportbench/plugins/tcpx/internal/gpu"
)

// Setup is how the bounce memory and the unpackers of a transport's workers are made. Its Resolve
// sets the mode; the caller sets the other fields.
type Setup struct {
	Unpack     string // never auto
	DeviceSend bool   // calls may have their payloads in the GPU's memory
	// DeviceDmabuf is set if a NIC puts payloads into the GPU's memory.
	DeviceDmabuf bool
	AutoNote     string // what mode auto took and why; else empty

	Request    int           // bytes of a full request
	Peers      int           // of a worker
	HostPrefix int           // bytes of each message that the host sees in device memory
	Workers    int           // threads that unpack in mode host; with 0 the polling thread does
	Sync       bool          // each launch waits until the request is unpacked
	Fault      string        // of the GPU's unpacker; other values are none
	Patience   time.Duration // how long a NIC may leave no room before that is an error
	DataPort   int           // of data sockets; 0 for any
	IPv6       bool          // data sockets are IPv6

	mode    *mode
	options transport.Values
	device  cuda.Description // of the GPU, once it was opened
}

// Hooks are the calls that reach hardware. Tests replace them.
var Hooks = struct {
	OpenGPU  func(ordinal int) (gpu.Device, error)
	CheckNIC func(s *Setup, device *GPU) error
	OpenNIC  func(o devmem.Options) (*devmem.Binding, error)
	BindTX   func(b *devmem.Binding, descriptor int) (id uint32, err error)
	// Transmitter makes what sends from dmabufs of BindTX.
	Transmitter func() sock.DeviceSender
}{
	OpenGPU: func(ordinal int) (gpu.Device, error) {
		c, err := cuda.Open(cuda.Library, ordinal)
		if err != nil {
			return nil, err
		}
		return c, nil
	},
	CheckNIC:    (*Setup).checkNIC,
	OpenNIC:     devmem.Open,
	BindTX:      (*devmem.Binding).BindTX,
	Transmitter: func() sock.DeviceSender { return devmem.NewTransmitter() },
}

// Mode returns the name of the mode.
func (s *Setup) Mode() string { return s.mode.name }

// OnGPU reports whether a GPU unpacks, so that payloads stay in its memory.
func (s *Setup) OnGPU() bool { return s.Unpack == unpackKernel || s.Unpack == unpackCopyEngine }

// NIC returns the interface that fills bounce memory; empty if the host's processors do.
func (s *Setup) NIC() string {
	if !s.ByNIC() {
		return ""
	}
	return s.options.String("interface")
}

// ByNIC reports whether a NIC fills bounce memory, so that fragments are not pages.
func (s *Setup) ByNIC() bool { return s.mode.name == modeDevmem }

// MaxFragments returns the most fragments of a request.
func (s *Setup) MaxFragments() int {
	if s.ByNIC() {
		return MaxFragments
	}
	return s.Request / PageSize
}

// Available returns nil, or an error that wraps [transport.ErrUnavailable].
func (s *Setup) Available() error { return s.mode.available(s) }

// Open makes the bounce memory and the unpacker of a worker.
func (s *Setup) Open() (memory Allocator, unpacker *Slots, err error) {
	var u Unpacker
	var device *GPU
	if s.OnGPU() || s.mode.name == modeGPU { // with unpack=none, too
		if device, err = s.openGPU(); err != nil {
			return nil, nil, err
		}
		u = device
	} else {
		u = NewHost(s.Workers)
	}
	if s.ByNIC() {
		memory, err = s.openDmabuf(device)
	} else {
		memory, err = NewPages(s.Request, s.Peers)
	}
	if err != nil {
		return nil, nil, errors.Join(err, u.Close())
	}
	if s.Sync {
		u = &Synchronous{Unpacker: u}
	}
	unpacker, err = NewSlots(memory, u)
	return memory, unpacker, err
}

// gpuAvailable opens the GPU and closes it, because only that shows that it works.
func (s *Setup) gpuAvailable() error {
	opened := make(chan error)
	go func() { // a CUDA context belongs to its thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		d, err := Hooks.OpenGPU(s.options.Int("gpu"))
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

func (s *Setup) openGPU() (*GPU, error) {
	ordinal := s.options.Int("gpu")
	u, err := NewGPU(gpu.Config{
		Open:  func() (gpu.Device, error) { return Hooks.OpenGPU(ordinal) },
		Mode:  gpu.Mode(s.Unpack),
		Fault: gpu.Fault(s.Fault),
		Sends: s.DeviceSend && !s.ByNIC(),
	})
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", ordinal, err)
	}
	return u, nil
}

// dmabuf returns how the dmabuf is made, in the memory of the device if options say so.
func (s *Setup) dmabuf(device *GPU) *DmabufConfig {
	if !s.DeviceDmabuf {
		device = nil
	}
	return &DmabufConfig{
		Device:    device,
		Transmit:  s.DeviceSend,
		Interface: s.NIC(), Queue: s.options.Int("queue"), Split: s.options.Bool("header-split"),
		Request: s.Request, Peers: s.Peers, Patience: s.Patience, Steering: s.steering(),
		// The processor reads what the NIC has written, at least the header prefixes.
		Sync: !s.DeviceDmabuf && (s.Unpack == UnpackCPU || s.HostPrefix > 0),
	}
}

func (s *Setup) devmemAvailable() error {
	var device *GPU
	if s.DeviceDmabuf {
		var err error
		if device, err = s.openGPU(); err != nil {
			return transport.Unavailable("mode devmem: %w", err)
		}
		defer device.Close() // nothing was unpacked
	}
	if err := Hooks.CheckNIC(s, device); err != nil || !s.OnGPU() {
		return err
	}
	return s.gpuAvailable()
}

// checkNIC checks the requirements of the NIC.
func (s *Setup) checkNIC(device *GPU) error {
	if err := devmem.Check(s.dmabuf(device).Options()); err != nil {
		return transport.Unavailable("mode devmem: %w", err)
	}
	return s.checkSteering()
}

// checkSteering refuses data sockets that no rule of a NIC can name.
func (s *Setup) checkSteering() error {
	if s.DataPort > 0 {
		return nil
	}
	return transport.Unavailable("mode devmem: data-port is 0, which takes another port each "+
		"time, and the NIC steers data sockets by their port; set data-port=5201, for example, "+
		"and then %s", s.steering())
}

// steering returns the command that steers data sockets to the queue. One end of each connection
// has its own port, the other end that of its peer.
func (s *Setup) steering() string {
	flow, port, queue := "tcp4", "PORT", "N"
	if s.IPv6 {
		flow = "tcp6"
	}
	if s.DataPort > 0 {
		port = fmt.Sprint(s.DataPort)
	}
	if chosen := s.options.Int("queue"); chosen >= 0 {
		queue = fmt.Sprint(chosen)
	}
	return fmt.Sprintf("ethtool -N %s flow-type %s dst-port %s queue %s, and again with src-port",
		s.options.String("interface"), flow, port, queue)
}

func (s *Setup) openDmabuf(device *GPU) (Allocator, error) {
	c := s.dmabuf(device)
	if size := c.Memory(); size > MaxDmabuf {
		return nil, refuse("request", "mode devmem needs %s of memory for %d peers, and the "+
			"limit is %s; use a smaller request",
			transport.FormatSize(int64(size)), s.Peers, transport.FormatSize(MaxDmabuf))
	}
	b, err := Hooks.OpenNIC(c.Options())
	if err != nil {
		return nil, fmt.Errorf("mode devmem, which needs a queue for each worker: %w", err)
	}
	return NewDmabuf(b, c), nil
}
