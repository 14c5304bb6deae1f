package devmem

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Options say what to bind.
type Options struct {
	// Interface is the NIC's name.
	Interface string
	// Queue is the receive queue that flows are steered to, from 0; -1 is the last.
	Queue int
	// Size is the bytes of the dmabuf, a multiple of the page size, and at most 4 GiB.
	Size int
	// Extra is the bytes of ordinary memory behind it, a multiple of the page size.
	Extra int
	// Split says to turn header split on where it is off, and to restore it on Close.
	Split bool
}

// Rung is a condition of device memory. They are in the order in which they are tried.
type Rung string

// The rungs.
const (
	RungKernel     Rung = "kernel"
	RungFamily     Rung = "netlink family"
	RungCapability Rung = "capability"
	RungInterface  Rung = "interface"
	RungQueues     Rung = "receive queues"
	RungSplit      Rung = "header split"
	RungDriver     Rung = "driver"
	RungExporter   Rung = "exporter"
	RungBind       Rung = "bind"
)

// RungError is the rung at which the ladder ends.
type RungError struct {
	Rung   Rung
	Err    error  // what was found
	Remedy string // what would help
}

func (e *RungError) Error() string { return fmt.Sprintf("%s: %v; %s", e.Rung, e.Err, e.Remedy) }

func (e *RungError) Unwrap() error { return e.Err }

// Binding is a dmabuf bound to a receive queue. As long as it is open, what arrives
// there lands in the dmabuf.
type Binding struct {
	// ID names the binding in what recvmsg tells.
	ID uint32
	// Memory is the dmabuf and the extra memory behind it, as the processor sees them.
	Memory []byte
	// Queue is the one that was bound, and Queues how many the interface has.
	Queue, Queues int

	options  Options
	system   system
	index    uint32 // of the interface
	netdev   *family
	ethtool  *family
	exported *udmabuf
	restore  func() error // of header split
}

// system is what the ladder leans on, other than in tests.
type system struct {
	family func(name string) (*family, error)
	export func(size, extra int) (*udmabuf, error)
}

var kernel = system{family: openFamily, export: exportMemory}

// rungs is the ladder. Each uses what those before it left in the binding.
var rungs = []struct {
	name Rung
	try  func(*Binding) *RungError
}{
	{RungKernel, (*Binding).tryKernel},
	{RungFamily, (*Binding).tryFamily},
	{RungCapability, (*Binding).tryCapability},
	{RungInterface, (*Binding).tryInterface},
	{RungQueues, (*Binding).tryQueues},
	{RungSplit, (*Binding).trySplit},
	{RungDriver, (*Binding).tryDriver},
	{RungExporter, (*Binding).tryExporter},
	{RungBind, (*Binding).tryBind},
}

// Open climbs the ladder and keeps the binding, which the caller closes. The error is a
// [*RungError].
func Open(options Options) (*Binding, error) { return open(options, kernel) }

func open(options Options, on system) (*Binding, error) {
	b := &Binding{options: options, system: on}
	for _, rung := range rungs {
		if err := rung.try(b); err != nil {
			if err.Rung == "" {
				err.Rung = rung.name
			}
			if closing := b.Close(); closing != nil {
				err.Err = errors.Join(err.Err, closing)
			}
			return nil, err
		}
	}
	return b, nil
}

// Climb says how far the ladder goes: nil, or a [*RungError]. It changes nothing that
// lasts: a binding that can be made is given up, and header split is restored.
func Climb(options Options) error {
	b, err := Open(options)
	if err != nil {
		return err
	}
	return b.Close()
}

// Close ends the binding, restores the NIC's settings and gives up the memory.
func (b *Binding) Close() error {
	var errs []error
	if b.netdev != nil {
		errs = append(errs, b.netdev.Close()) // which unbinds
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

// oldest is the first kernel with NETDEV_CMD_BIND_RX.
var oldest = [2]int{6, 12}

func (b *Binding) tryKernel() *RungError {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return &RungError{Err: err, Remedy: "uname(2) must work"}
	}
	release := unix.ByteSliceToString(u.Release[:])
	if !atLeast(release, oldest) {
		return &RungError{Err: fmt.Errorf("Linux %s", release), Remedy: fmt.Sprintf("boot Linux %d.%d or later", oldest[0], oldest[1])}
	}
	return nil
}

func atLeast(release string, version [2]int) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n < 2 {
		return true // a kernel that counts otherwise; the next rungs ask it
	}
	return major > version[0] || major == version[0] && minor >= version[1]
}

func (b *Binding) tryFamily() *RungError {
	var err error
	if b.netdev, err = b.system.family("netdev"); err != nil {
		return &RungError{Err: err, Remedy: "boot a kernel that has it: Linux with networking (CONFIG_NET)"}
	}
	return nil
}

func (b *Binding) tryCapability() *RungError {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return &RungError{Err: err, Remedy: "capget(2) must work"}
	}
	if data[0].Effective&(1<<unix.CAP_NET_ADMIN) == 0 {
		return &RungError{Err: errors.New("the process lacks CAP_NET_ADMIN"), Remedy: "run it as root, or setcap cap_net_admin+ep on the plugin"}
	}
	return nil
}

func (b *Binding) tryInterface() *RungError {
	if b.options.Interface == "" {
		return &RungError{Err: errors.New("none is given"), Remedy: "name the NIC"}
	}
	i, err := net.InterfaceByName(b.options.Interface)
	switch {
	case err != nil:
		return &RungError{Err: fmt.Errorf("%s: %w", b.options.Interface, err), Remedy: "ip link shows which there are"}
	case i.Flags&net.FlagUp == 0:
		return &RungError{Err: fmt.Errorf("%s is down", i.Name), Remedy: "ip link set " + i.Name + " up"}
	}
	b.index = uint32(i.Index)
	return nil
}

// leastQueues leaves one for everything else than device memory.
const leastQueues = 2

func (b *Binding) tryQueues() *RungError {
	var err error
	name := b.options.Interface
	if b.Queues, err = b.netdev.receiveQueues(b.index); err != nil {
		return &RungError{Err: err, Remedy: "the kernel must list the queues of " + name}
	}
	if b.Queues < leastQueues {
		return &RungError{Err: fmt.Errorf("%s has %d, and one is for all other traffic", name, b.Queues),
			Remedy: "ethtool -L " + name + " combined 2 (or rx 2), where the NIC has more"}
	}
	b.Queue = b.options.Queue
	if b.Queue < 0 {
		b.Queue = b.Queues - 1
	}
	if b.Queue >= b.Queues {
		return &RungError{Err: fmt.Errorf("%s has queues 0 to %d, and not %d", name, b.Queues-1, b.Queue), Remedy: "choose another queue"}
	}
	return nil
}

func (b *Binding) trySplit() *RungError {
	name := b.options.Interface
	remedy := "ethtool -G " + name + " tcp-data-split on"
	var err error
	if b.ethtool, err = b.system.family("ethtool"); err != nil {
		return &RungError{Err: err, Remedy: "boot a kernel with CONFIG_ETHTOOL_NETLINK"}
	}
	now, err := b.ethtool.split(b.index)
	if err != nil {
		return &RungError{Err: fmt.Errorf("the driver of %s tells nothing of it: %w", name, err), Remedy: "use a NIC whose driver can split headers"}
	}
	switch {
	case now == splitOn:
		return nil
	case now == splitUnknown:
		return &RungError{Err: fmt.Errorf("the driver of %s cannot split headers", name), Remedy: "use a NIC that can"}
	case !b.options.Split:
		return &RungError{Err: fmt.Errorf("it is off on %s", name), Remedy: remedy}
	}
	if err := b.ethtool.setSplit(b.index, splitOn); err != nil {
		return &RungError{Err: fmt.Errorf("%s: %w", name, err), Remedy: "try " + remedy}
	}
	index, ethtool := b.index, b.ethtool
	b.restore = func() error { return ethtool.setSplit(index, now) }
	return nil
}

// noDescriptor is a file descriptor that nobody has.
const noDescriptor = 1<<31 - 1

// tryDriver binds what is no dmabuf. A driver that cannot bind says that it does not
// support this; one that may be able to is told that the descriptor is bad.
func (b *Binding) tryDriver() *RungError {
	_, err := b.netdev.bind(b.index, b.Queue, noDescriptor)
	switch {
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EINVAL):
		return nil
	case err == nil:
		err = errors.New("the kernel bound a descriptor that does not exist")
	}
	return b.driverCannot(err)
}

func (b *Binding) driverCannot(err error) *RungError {
	return &RungError{Rung: RungDriver, Err: fmt.Errorf("%s takes no dmabuf: %w", b.options.Interface, err),
		Remedy: "use a NIC whose driver has queue management and netmem, and a kernel with CONFIG_NET_DEVMEM"}
}

func (b *Binding) tryExporter() *RungError {
	var err error
	if b.exported, err = b.system.export(b.options.Size, b.options.Extra); err != nil {
		return &RungError{Err: err, Remedy: "modprobe udmabuf, or boot a kernel with CONFIG_UDMABUF; its parameter size_limit_mb bounds the size"}
	}
	b.Memory = b.exported.memory
	return nil
}

func (b *Binding) tryBind() *RungError {
	id, err := b.netdev.bind(b.index, b.Queue, b.exported.descriptor)
	if errors.Is(err, unix.EOPNOTSUPP) { // kernels differ in what they look at first, the descriptor or the driver
		return b.driverCannot(err)
	}
	if err != nil {
		return &RungError{Err: fmt.Errorf("queue %d of %s: %w", b.Queue, b.options.Interface, err),
			Remedy: "no XDP or AF_XDP socket may use the queue, hds-thresh must be 0, and the driver able to restart it"}
	}
	b.ID = id
	return nil
}

// Sync makes what the NIC wrote to the dmabuf visible to the processor, which is only
// needed where the processor unpacks.
func (b *Binding) Sync() error { return b.exported.sync() }
