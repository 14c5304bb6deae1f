package devmem

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Options select the queue and the memory to bind.
type Options struct {
	// Interface is the NIC's name.
	Interface string
	// Queue is the receive queue that flows are steered to, from 0; -1 is the last.
	Queue int
	// Size is the size of the dmabuf in bytes: a multiple of the page size, at most 4 GiB.
	Size int
	// Extra is the size of ordinary memory after it, a multiple of the page size.
	Extra int
	// Export allocates size bytes in a device, with extra bytes behind them, and returns a dmabuf
	// of the first size, which is not mapped. It is called once. Nil takes memory of the host.
	Export func(size, extra int) (descriptor int, err error)
	// Transmit requires that BindTX works.
	Transmit bool
	// Split turns header split on if it is off, and restores it on Close.
	Split bool
}

// Requirement is a condition of device memory.
type Requirement string

// The requirements, in the order in which Open checks them.
const (
	RequireKernel     Requirement = "kernel"
	RequireFamily     Requirement = "netlink family"
	RequireCapability Requirement = "capability"
	RequireInterface  Requirement = "interface"
	RequireQueues     Requirement = "receive queues"
	RequireSplit      Requirement = "header split"
	RequireDriver     Requirement = "driver"
	RequireTransmit   Requirement = "sending"
	RequireExporter   Requirement = "exporter"
	RequireBind       Requirement = "bind"
)

// RequirementError is the first requirement that fails.
type RequirementError struct {
	Requirement Requirement
	Err         error  // the reason
	Remedy      string // what to do about it
}

func (e *RequirementError) Error() string {
	return fmt.Sprintf("%s: %v; %s", e.Requirement, e.Err, e.Remedy)
}

func (e *RequirementError) Unwrap() error { return e.Err }

// Binding is a dmabuf bound to a receive queue. While it is open, the payloads that arrive at
// the queue go into the dmabuf.
type Binding struct {
	// ID identifies the binding in control messages.
	ID uint32
	// Memory is the dmabuf and the extra memory after it, mapped for the processor; with
	// Options.Export, ordinary memory in the dmabuf's place.
	Memory []byte
	// Queue is the bound queue, and Queues the number of receive queues.
	Queue, Queues int

	options  Options
	system   system
	index    uint32 // of the interface
	netdev   *family
	ethtool  *family
	exported *udmabuf
	restore  func() error // of header split
}

// system has what tests replace.
type system struct {
	family func(name string) (*family, error)
	export func(size, extra int) (*udmabuf, error)
}

var kernel = system{family: openFamily, export: exportMemory}

// requirements are checked in this order. Each uses what the earlier ones put into the binding.
var requirements = []struct {
	name Requirement
	try  func(*Binding) *RequirementError
}{
	{RequireKernel, (*Binding).tryKernel},
	{RequireFamily, (*Binding).tryFamily},
	{RequireCapability, (*Binding).tryCapability},
	{RequireInterface, (*Binding).tryInterface},
	{RequireQueues, (*Binding).tryQueues},
	{RequireSplit, (*Binding).trySplit},
	{RequireDriver, (*Binding).tryDriver},
	{RequireTransmit, (*Binding).tryTransmit},
	{RequireExporter, (*Binding).tryExporter},
	{RequireBind, (*Binding).tryBind},
}

// Open checks all requirements and returns the binding, which the caller closes. The error is
// a [*RequirementError].
func Open(options Options) (*Binding, error) { return open(options, kernel) }

func open(options Options, on system) (*Binding, error) {
	b := &Binding{options: options, system: on}
	for _, r := range requirements {
		if err := r.try(b); err != nil {
			if err.Requirement == "" {
				err.Requirement = r.name
			}
			if closing := b.Close(); closing != nil {
				err.Err = errors.Join(err.Err, closing)
			}
			return nil, err
		}
	}
	return b, nil
}

// Check returns a [*RequirementError] for the first requirement that fails, or nil. It restores
// what it changes: it closes the binding and resets header split.
func Check(options Options) error {
	b, err := Open(options)
	if err != nil {
		return err
	}
	return b.Close()
}

// Close ends the binding, restores the NIC's settings and frees the memory.
func (b *Binding) Close() error {
	var errs []error
	if b.netdev != nil {
		errs = append(errs, b.netdev.Close()) // unbinds
	}
	if b.restore != nil {
		errs = append(errs, b.restore())
	}
	if b.ethtool != nil {
		errs = append(errs, b.ethtool.Close())
	}
	if b.exported != nil {
		errs = append(errs, b.exported.close())
	}
	*b = Binding{options: b.options, system: b.system}
	return errors.Join(errs...)
}

// The first kernels with NETDEV_CMD_BIND_RX and NETDEV_CMD_BIND_TX.
var (
	oldest   = [2]int{6, 12}
	oldestTX = [2]int{6, 16}
)

func (b *Binding) tryKernel() *RequirementError { return kernelSince(oldest) }

func kernelSince(oldest [2]int) *RequirementError {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return &RequirementError{Err: err, Remedy: "uname(2) must work"}
	}
	release := unix.ByteSliceToString(u.Release[:])
	if !atLeast(release, oldest) {
		return &RequirementError{Err: fmt.Errorf("Linux %s", release),
			Remedy: fmt.Sprintf("boot Linux %d.%d or later", oldest[0], oldest[1])}
	}
	return nil
}

func atLeast(release string, version [2]int) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 {
		return true // an unusual version; the next requirements ask the kernel itself
	}
	return major > version[0] || major == version[0] && minor >= version[1]
}

func (b *Binding) tryFamily() *RequirementError {
	var err error
	if b.netdev, err = b.system.family("netdev"); err != nil {
		return &RequirementError{Err: err,
			Remedy: "boot a kernel that has it: Linux with networking (CONFIG_NET)"}
	}
	return nil
}

func (b *Binding) tryCapability() *RequirementError {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return &RequirementError{Err: err, Remedy: "capget(2) must work"}
	}
	if data[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return &RequirementError{Err: errors.New("the process lacks CAP_NET_ADMIN"),
			Remedy: "run it as root, or setcap cap_net_admin+ep on the plugin"}
	}
	return nil
}

func (b *Binding) tryInterface() *RequirementError {
	if b.options.Interface == "" {
		return &RequirementError{Err: errors.New("none is given"), Remedy: "name the NIC"}
	}
	i, err := net.InterfaceByName(b.options.Interface)
	switch {
	case err != nil:
		return &RequirementError{Err: fmt.Errorf("%s: %w", b.options.Interface, err),
			Remedy: "ip link lists the interfaces"}
	case i.Flags&net.FlagUp == 0:
		return &RequirementError{Err: fmt.Errorf("%s is down", i.Name), Remedy: "ip link set " +
			i.Name + " up"}
	}
	b.index = uint32(i.Index)
	return nil
}

// minQueues leaves one queue for traffic other than device memory.
const minQueues = 2

func (b *Binding) tryQueues() *RequirementError {
	var err error
	name := b.options.Interface
	if b.Queues, err = b.netdev.receiveQueues(b.index); err != nil {
		return &RequirementError{Err: err, Remedy: "the kernel must list the queues of " + name}
	}
	if b.Queues < minQueues {
		return &RequirementError{Err: fmt.Errorf("%s has %d, and one is needed for other traffic",
			name, b.Queues),
			Remedy: "ethtool -L " + name + " combined 2 (or rx 2), if the NIC has more"}
	}
	b.Queue = b.options.Queue
	if b.Queue < 0 {
		b.Queue = b.Queues - 1
	}
	if b.Queue >= b.Queues {
		return &RequirementError{Err: fmt.Errorf("%s has queues 0 to %d, not %d", name, b.Queues-1,
			b.Queue), Remedy: "choose another queue"}
	}
	return nil
}

func (b *Binding) trySplit() *RequirementError {
	name := b.options.Interface
	remedy := "ethtool -G " + name + " tcp-data-split on"
	var err error
	if b.ethtool, err = b.system.family("ethtool"); err != nil {
		return &RequirementError{Err: err, Remedy: "boot a kernel with CONFIG_ETHTOOL_NETLINK"}
	}
	now, err := b.ethtool.split(b.index)
	if err != nil {
		return &RequirementError{Err: fmt.Errorf("the driver of %s does not report it: %w", name,
			err), Remedy: "use a NIC whose driver can split headers"}
	}
	switch {
	case now == splitOn:
		return nil
	case now == splitUnknown:
		return &RequirementError{Err: fmt.Errorf("the driver of %s cannot split headers", name),
			Remedy: "use a NIC that can"}
	case !b.options.Split:
		return &RequirementError{Err: fmt.Errorf("it is off on %s", name), Remedy: remedy}
	}
	if err := b.ethtool.setSplit(b.index, splitOn); err != nil {
		return &RequirementError{Err: fmt.Errorf("%s: %w", name, err), Remedy: "try " + remedy}
	}
	index, ethtool := b.index, b.ethtool
	b.restore = func() error { return ethtool.setSplit(index, now) }
	return nil
}

// noDescriptor is a file descriptor that no process has.
const noDescriptor = 1<<31 - 1

// tryDriver binds an invalid descriptor. A driver that cannot bind answers that it does not
// support the operation; otherwise the kernel answers that the descriptor is bad.
func (b *Binding) tryDriver() *RequirementError {
	_, err := b.netdev.bind(b.index, b.Queue, noDescriptor)
	switch {
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL):
		return nil
	case err == nil:
		err = errors.New("the kernel bound a descriptor that does not exist")
	}
	return b.driverCannot(err)
}

func (b *Binding) driverCannot(err error) *RequirementError {
	return &RequirementError{Requirement: RequireDriver,
		Err: fmt.Errorf("%s cannot bind a dmabuf: %w", b.options.Interface, err),
		Remedy: "use a NIC whose driver has queue management and netmem, and a kernel with " +
			"CONFIG_NET_DEVMEM"}
}

// tryTransmit binds an invalid descriptor, as tryDriver does.
func (b *Binding) tryTransmit() *RequirementError {
	if !b.options.Transmit {
		return nil
	}
	if err := kernelSince(oldestTX); err != nil {
		return err
	}
	_, err := b.netdev.bindTX(b.index, noDescriptor)
	switch {
	case errors.Is(err, unix.EBADF):
		return nil
	case err == nil:
		err = errors.New("the kernel bound a descriptor that does not exist")
	}
	return &RequirementError{
		Err: fmt.Errorf("%s cannot send from a dmabuf: %w", b.options.Interface, err),
		Remedy: "use a NIC whose driver supports that, send-memory=host, or mode=gpu, which " +
			"copies through the host"}
}

// BindTX binds a dmabuf that the interface is to send from, until b is closed. The kernel keeps the
// dmabuf, so the caller may close the descriptor. id is the argument of [Transmitter.Send].
func (b *Binding) BindTX(descriptor int) (id uint32, err error) {
	if id, err = b.netdev.bindTX(b.index, descriptor); err != nil {
		return 0, fmt.Errorf("binding a dmabuf to %s for sending: %w", b.options.Interface, err)
	}
	return id, nil
}

func (b *Binding) tryExporter() *RequirementError {
	var err error
	if b.options.Export != nil {
		if b.exported, err = exportDevice(b.options); err != nil {
			return &RequirementError{Err: err, Remedy: "use a GPU and a driver that export " +
				"dmabufs, with NVIDIA's open kernel modules, or dmabuf-memory=host"}
		}
		b.Memory = b.exported.memory
		return nil
	}
	if b.exported, err = b.system.export(b.options.Size, b.options.Extra); err != nil {
		return &RequirementError{Err: err, Remedy: "modprobe udmabuf, or boot a kernel with " +
			"CONFIG_UDMABUF; its parameter size_limit_mb limits the size"}
	}
	b.Memory = b.exported.memory
	return nil
}

func (b *Binding) tryBind() *RequirementError {
	id, err := b.netdev.bind(b.index, b.Queue, b.exported.descriptor)
	// kernels differ in whether they check the descriptor or the driver first
	if errors.Is(err, unix.EOPNOTSUPP) {
		return b.driverCannot(err)
	}
	if err != nil {
		return &RequirementError{Err: fmt.Errorf("queue %d of %s: %w", b.Queue, b.options.Interface,
			err),
			Remedy: "no XDP or AF_XDP socket may use the queue, hds-thresh must be 0, and the " +
				"driver must be able to restart the queue"}
	}
	b.ID = id
	return nil
}

// Sync makes the NIC's writes to the dmabuf visible to the processor. It is needed only if the
// processor unpacks, from memory of the host.
func (b *Binding) Sync() error { return b.exported.sync() }
