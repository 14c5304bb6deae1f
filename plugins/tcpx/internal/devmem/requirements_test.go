package devmem

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needKernel skips the test if the first requirements fail, which the others need.
func needKernel(t *testing.T) {
	t.Helper()
	b := &Binding{system: kernel}
	defer func() { require.NoError(t, b.Close()) }()
	for _, requirement := range requirements[:2] {
		if err := requirement.try(b); err != nil {
			t.Skipf("%s: %v; %s", requirement.name, err.Err, err.Remedy)
		}
	}
}

// requireFailure checks that a requirement fails, with a reason and a remedy.
func requireFailure(t *testing.T, err error, want Requirement, words string) {
	t.Helper()
	var requirement *RequirementError
	require.ErrorAs(t, err, &requirement)
	require.Equal(t, want, requirement.Requirement, err)
	require.ErrorContains(t, err, words)
	require.NotEmpty(t, requirement.Remedy)
	require.NotContains(t, err.Error(), "\n", "one line for users")
}

// TestRequirementsOnRealDevices checks the errors for the kernel's own devices.
func TestRequirementsOnRealDevices(t *testing.T) {
	needKernel(t)
	namespace(t)
	climb := func(name string, queue int) error {
		return Check(Options{Interface: name, Queue: queue, Size: 1 << 20})
	}
	requireFailure(t, climb("", -1), RequireInterface, "none is given; name the NIC")
	requireFailure(t, climb("nobody", -1), RequireInterface, "nobody: ")
	requireFailure(t, climb("lo", -1), RequireInterface, "lo is down; ip link set lo up")
	setUp(t, "lo")
	requireFailure(t, climb("lo", -1), RequireQueues,
		"lo has 1, and one is needed for other traffic; ethtool -L lo combined 2")

	makeVeth(t, "one", "eno", 1)
	requireFailure(t, climb("one", -1), RequireQueues, "one has 1")
	makeVeth(t, "four", "ruof", 4)
	requireFailure(t, climb("four", 4), RequireQueues, "four has queues 0 to 3, not 4")
	requireFailure(t, climb("four", 0), RequireSplit, "the driver of four")
	makeTap(t, "tap2", 2)
	requireFailure(t, climb("tap2", -1), RequireSplit, "the driver of tap2")

	// Bind to each directly, although an earlier requirement fails.
	for _, name := range []string{"lo", "one", "four", "tap2"} {
		b := &Binding{options: Options{Interface: name}, system: kernel}
		require.Nil(t, b.tryFamily())
		i, err := net.InterfaceByName(name)
		require.NoError(t, err)
		b.index = uint32(i.Index)
		refused := b.tryDriver()
		require.NotNil(t, refused, "%s can bind a dmabuf", name)
		require.ErrorIs(t, refused.Err, unix.EOPNOTSUPP)
		require.ErrorContains(t, refused.Err, name+" cannot bind a dmabuf")
		b.options.Transmit = true
		refused = b.tryTransmit()
		require.NotNil(t, refused, "%s can send from a dmabuf", name)
		if old := kernelSince(oldestTX); old != nil {
			require.Equal(t, old, refused)
		} else {
			require.ErrorIs(t, refused.Err, unix.EOPNOTSUPP)
			require.ErrorContains(t, refused.Err, name+" cannot send from a dmabuf: operation "+
				"not supported (Driver does not support netmem TX)")
			_, err = b.BindTX(noDescriptor)
			require.ErrorIs(t, err, unix.EOPNOTSUPP)
		}
		require.NoError(t, b.Close())
	}
}

func TestRequirementsWantsTheCapability(t *testing.T) {
	needKernel(t)
	namespace(t) // the thread, and its capabilities, end with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	require.NoError(t, unix.Capset(&header, &data[0]))
	requireFailure(t, Check(Options{Interface: "lo", Queue: -1}), RequireCapability,
		"setcap cap_net_admin+ep")
}

func TestAtLeast(t *testing.T) {
	for release, enough := range map[string]bool{
		"6.12.0": true, "6.12": true, "6.18.44-amd64": true, "7.0.1": true, "10.2": true,
		"6.11.9": false, "6.1.0-30-amd64": false, "5.15.0": false, "strange": true,
	} {
		require.Equal(t, enough, atLeast(release, oldest), release)
	}
}

// nic is a fake NIC that answers netlink like one that can or cannot bind a dmabuf.
type nic struct {
	t       *testing.T
	queues  int
	split   uint8
	silent  bool  // does not report header split
	noSplit error // of turning it on
	driver  error // of binding an invalid descriptor
	bindErr error
	export  error
	sending error // of binding an invalid descriptor for sending

	set   []uint8 // values of header split that were set
	bound []int   // descriptors that were bound
}

// system returns a system whose netlink the NIC answers, with memory in place of a dmabuf.
func (n *nic) system() system {
	return system{
		family: func(name string) (*family, error) {
			conn := genltest.Dial(genltest.ServeFamily(
				genetlink.Family{ID: 42, Name: name, Version: 1}, n.serve))
			return &family{conn: conn, id: 42, name: name}, nil
		},
		export: func(size, extra int) (*udmabuf, error) {
			if n.export != nil {
				return nil, n.export
			}
			memory, err := unix.Mmap(-1, 0, size+extra, unix.PROT_READ|unix.PROT_WRITE,
				unix.MAP_PRIVATE|unix.MAP_ANON)
			return &udmabuf{memfd: -1, descriptor: dupNull(n.t), memory: memory}, err
		},
	}
}

func dupNull(t *testing.T) int {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	return fd
}

func (n *nic) serve(request genetlink.Message, _ netlink.Message) ([]genetlink.Message, error) {
	ad, err := netlink.NewAttributeDecoder(request.Data)
	require.NoError(n.t, err)
	answer := netlink.NewAttributeEncoder()
	switch request.Header.Command {
	case commandQueueGet:
		return n.listQueues(), nil
	case commandRingsGet: // or commandBindTX, which is the same number in another family
		sends := false
		for ad.Next() {
			sends = sends || ad.Type() == dmabufDescriptor
			if ad.Type() == dmabufDescriptor && ad.Uint32() == noDescriptor {
				return nil, n.sending
			}
		}
		if sends {
			answer.Uint32(dmabufID, 78)
		} else if !n.silent {
			answer.Uint8(ringsSplit, n.split)
		}
	case commandRingsSet:
		for ad.Next() {
			if ad.Type() == ringsSplit {
				if n.noSplit != nil {
					return nil, n.noSplit
				}
				n.split = ad.Uint8()
				n.set = append(n.set, n.split)
			}
		}
	case commandBindRX:
		descriptor, queue, kind := -1, -1, -1
		for ad.Next() {
			switch ad.Type() {
			case dmabufDescriptor:
				descriptor = int(ad.Uint32())
			case dmabufQueues:
				ad.Nested(func(q *netlink.AttributeDecoder) error {
					for q.Next() {
						switch q.Type() {
						case queueID:
							queue = int(q.Uint32())
						case queueType:
							kind = int(q.Uint32())
						}
					}
					return q.Err()
				})
			}
		}
		require.Equal(n.t, []int{n.queues - 1, queueTypeRX}, []int{queue, kind})
		if descriptor == noDescriptor {
			return nil, n.driver
		}
		if n.bindErr != nil {
			return nil, n.bindErr
		}
		n.bound = append(n.bound, descriptor)
		answer.Uint32(dmabufID, 77)
	default:
		n.t.Errorf("unexpected command %d", request.Header.Command)
	}
	require.NoError(n.t, ad.Err())
	data, err := answer.Encode()
	require.NoError(n.t, err)
	return []genetlink.Message{{Header: request.Header, Data: data}}, nil
}

func (n *nic) listQueues() (list []genetlink.Message) {
	for kind := range uint32(2) { // transmit queues as well
		for i := range n.queues {
			ae := netlink.NewAttributeEncoder()
			ae.Uint32(queueID, uint32(i))
			ae.Uint32(queueType, kind)
			data, err := ae.Encode()
			require.NoError(n.t, err)
			list = append(list, genetlink.Message{Data: data})
		}
	}
	return list
}

// loopback returns an interface that exists and is up.
func loopback(t *testing.T) string {
	t.Helper()
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		if i.Flags&(net.FlagLoopback|net.FlagUp) == net.FlagLoopback|net.FlagUp {
			return i.Name
		}
	}
	t.Skip("no loopback interface is up")
	return ""
}

// TestAllRequirements: each requirement can fail, and what was changed is restored.
func TestAllRequirements(t *testing.T) {
	name := loopback(t)
	skipWithout(t)
	can := nic{t: t, queues: 4, split: splitOn, driver: genltest.Error(int(unix.EBADF))}
	with := func(change func(*nic)) *nic {
		n := can
		change(&n)
		return &n
	}
	options := Options{Interface: name, Queue: -1, Size: 1 << 20, Extra: 1 << 16}

	for _, c := range []struct {
		requirement Requirement
		words       string
		nic         *nic
	}{
		{RequireQueues, name + " has 1", with(func(n *nic) { n.queues = 1 })},
		{RequireSplit, "it is off on " + name + "; ethtool -G " + name + " tcp-data-split on",
			with(func(n *nic) { n.split = splitOff })},
		{RequireSplit, "cannot split headers", with(func(n *nic) { n.split = splitUnknown })},
		{RequireSplit, "cannot split headers", with(func(n *nic) { n.silent = true })},
		{RequireDriver, "operation not supported",
			with(func(n *nic) { n.driver = genltest.Error(int(unix.EOPNOTSUPP)) })},
		{RequireExporter, "no such file or directory; modprobe udmabuf",
			with(func(n *nic) {
				n.export = &os.PathError{Op: "open", Path: exporter,
					Err: unix.ENOENT}
			})},
		{RequireDriver, name + " cannot bind a dmabuf: operation not supported",
			with(func(n *nic) { n.bindErr = genltest.Error(int(unix.EOPNOTSUPP)) })},
		{RequireBind, "queue 3 of " + name + ": device or resource busy",
			with(func(n *nic) { n.bindErr = genltest.Error(int(unix.EBUSY)) })},
	} {
		_, err := open(options, c.nic.system())
		requireFailure(t, err, c.requirement, c.words)
		require.Empty(t, c.nic.set)
	}

	n := with(func(*nic) {})
	b, err := open(options, n.system())
	require.NoError(t, err)
	require.Equal(t, []any{uint32(77), 3, 4}, []any{b.ID, b.Queue, b.Queues})
	require.Len(t, b.Memory, 1<<20+1<<16)
	require.Len(t, n.bound, 1)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "a second Close")
	require.Empty(t, n.set, "header split was on")

	// A device's memory takes the place of the host's, and the processor has memory beside it.
	device := dupNull(t)
	ofDevice := options
	ofDevice.Export = func(size, extra int) (int, error) {
		require.Equal(t, []int{1 << 20, 1 << 16}, []int{size, extra})
		return device, nil
	}
	n = with(func(n *nic) { n.export = errors.New("not asked") })
	b, err = open(ofDevice, n.system())
	require.NoError(t, err)
	require.Equal(t, []int{device}, n.bound)
	require.Len(t, b.Memory, 1<<20+1<<16)
	require.NoError(t, b.Close())
	ofDevice.Export = func(int, int) (int, error) { return -1, errors.New("not supported") }
	_, err = open(ofDevice, with(func(*nic) {}).system())
	requireFailure(t, err, RequireExporter, "not supported; use a GPU and a driver that export")

	// A NIC may be unable to send; it is asked only if it is to.
	n = with(func(n *nic) { n.sending = genltest.Error(int(unix.EOPNOTSUPP)) })
	b, err = open(options, n.system())
	require.NoError(t, err)
	require.NoError(t, b.Close())
	if kernelSince(oldestTX) == nil {
		transmit := options
		transmit.Transmit = true
		_, err = open(transmit, n.system())
		requireFailure(t, err, RequireTransmit, name+" cannot send from a dmabuf: operation not "+
			"supported; use a NIC whose driver supports that")
		n.sending = genltest.Error(int(unix.EBADF))
		b, err = open(transmit, n.system())
		require.NoError(t, err)
		id, err := b.BindTX(3)
		require.NoError(t, err)
		require.Equal(t, uint32(78), id)
		require.NoError(t, b.Close())
	}

	// Split turns it on, and off again on Close and if a later requirement fails.
	options.Split = true
	n = with(func(n *nic) { n.split = splitOff })
	b, err = open(options, n.system())
	require.NoError(t, err)
	require.Equal(t, []uint8{splitOn}, n.set)
	require.NoError(t, b.Close())
	require.Equal(t, []uint8{splitOn, splitOff}, n.set)

	n = with(func(n *nic) { n.split, n.bindErr = splitOff, genltest.Error(int(unix.EBUSY)) })
	_, err = open(options, n.system())
	requireFailure(t, err, RequireBind, "device or resource busy")
	require.Equal(t, []uint8{splitOn, splitOff}, n.set)

	n = with(func(n *nic) { n.split, n.noSplit = splitOff, genltest.Error(int(unix.EINVAL)) })
	_, err = open(options, n.system())
	requireFailure(t, err, RequireSplit, "invalid argument; try ethtool -G "+name)
}

// skipWithout skips the test if a requirement fails that the fake NIC does not answer.
func skipWithout(t *testing.T) {
	t.Helper()
	b := &Binding{}
	for _, try := range []func(*Binding) *RequirementError{(*Binding).tryKernel,
		(*Binding).tryCapability} {
		if err := try(b); err != nil {
			t.Skipf("%v; %s", err.Err, err.Remedy)
		}
	}
}

// TestExporter makes a real dmabuf if the kernel can.
func TestExporter(t *testing.T) {
	u, err := exportMemory(1<<20, 1<<16)
	if err != nil {
		var path *os.PathError
		require.True(t, errors.As(err, &path) && path.Path == exporter, "%v", err)
		t.Skip(err)
	}
	require.Len(t, u.memory, 1<<20+1<<16)
	u.memory[len(u.memory)-1] = 1
	require.NoError(t, u.sync())
	require.NoError(t, u.close())
}
