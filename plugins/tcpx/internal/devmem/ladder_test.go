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

// needKernel skips where the first rungs do not hold, which the others need.
func needKernel(t *testing.T) {
	t.Helper()
	b := &Binding{system: kernel}
	defer func() { require.NoError(t, b.Close()) }()
	for _, rung := range rungs[:2] {
		if err := rung.try(b); err != nil {
			t.Skipf("%s: %v; %s", rung.name, err.Err, err.Remedy)
		}
	}
}

// requireRung wants the ladder to end at a rung, with words.
func requireRung(t *testing.T, err error, want Rung, words string) {
	t.Helper()
	var rung *RungError
	require.ErrorAs(t, err, &rung)
	require.Equal(t, want, rung.Rung, err)
	require.ErrorContains(t, err, words)
	require.NotEmpty(t, rung.Remedy)
	require.NotContains(t, err.Error(), "\n", "one line for users")
}

// TestLadderOnRealDevices: what the kernel's own devices refuse, and with which words.
func TestLadderOnRealDevices(t *testing.T) {
	needKernel(t)
	namespace(t)
	climb := func(name string, queue int) error {
		return Climb(Options{Interface: name, Queue: queue, Size: 1 << 20})
	}
	requireRung(t, climb("", -1), RungInterface, "none is given; name the NIC")
	requireRung(t, climb("nobody", -1), RungInterface, "nobody: ")
	requireRung(t, climb("lo", -1), RungInterface, "lo is down; ip link set lo up")
	setUp(t, "lo")
	requireRung(t, climb("lo", -1), RungQueues, "lo has 1, and one is for all other traffic; ethtool -L lo combined 2")

	makeVeth(t, "one", "eno", 1)
	requireRung(t, climb("one", -1), RungQueues, "one has 1")
	makeVeth(t, "four", "ruof", 4)
	requireRung(t, climb("four", 4), RungQueues, "four has queues 0 to 3, and not 4")
	requireRung(t, climb("four", 0), RungSplit, "the driver of four")
	makeTap(t, "tap2", 2)
	requireRung(t, climb("tap2", -1), RungSplit, "the driver of tap2")

	// What the rung after the next says of each, which none of them gets to.
	for _, name := range []string{"lo", "one", "four", "tap2"} {
		b := &Binding{options: Options{Interface: name}, system: kernel}
		require.Nil(t, b.tryFamily())
		i, err := net.InterfaceByName(name)
		require.NoError(t, err)
		b.index = uint32(i.Index)
		refused := b.tryDriver()
		require.NotNil(t, refused, "%s takes a dmabuf", name)
		require.ErrorIs(t, refused.Err, unix.EOPNOTSUPP)
		require.ErrorContains(t, refused.Err, name+" takes no dmabuf")
		require.NoError(t, b.Close())
	}
}

func TestLadderWantsTheCapability(t *testing.T) {
	needKernel(t)
	namespace(t) // the thread ends with the test, and what is taken from it with it
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	require.NoError(t, unix.Capset(&header, &data[0]))
	requireRung(t, Climb(Options{Interface: "lo", Queue: -1}), RungCapability, "setcap cap_net_admin+ep")
}

func TestAtLeast(t *testing.T) {
	for release, enough := range map[string]bool{
		"6.12.0": true, "6.12": true, "6.18.44-amd64": true, "7.0.1": true, "10.2": true,
		"6.11.9": false, "6.1.0-30-amd64": false, "5.15.0": false, "strange": true,
	} {
		require.Equal(t, enough, atLeast(release, oldest), release)
	}
}

// nic is a NIC of tests: it answers netlink as one that can take a dmabuf, or not.
type nic struct {
	t       *testing.T
	queues  int
	split   uint8
	silent  bool  // tells nothing of header split
	noSplit error // of turning it on
	driver  error // of binding what is no dmabuf
	bindErr error
	export  error

	set   []uint8 // values that header split was set to
	bound []int   // descriptors that were bound
}

// system has the families answered by the NIC, and memory in place of a dmabuf.
func (n *nic) system() system {
	return system{
		family: func(name string) (*family, error) {
			conn := genltest.Dial(genltest.ServeFamily(genetlink.Family{ID: 42, Name: name, Version: 1}, n.serve))
			return &family{conn: conn, id: 42, name: name}, nil
		},
		export: func(size, extra int) (*udmabuf, error) {
			if n.export != nil {
				return nil, n.export
			}
			memory, err := unix.Mmap(-1, 0, size+extra, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
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
	case commandRingsGet:
		if !n.silent {
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
	for kind := range uint32(2) { // as many to send from
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

// loopback is an interface that exists and is up, which the rungs of the kernel itself
// want to see.
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

// TestLadderToTheTop climbs as far as a NIC lets it, and restores what it changed.
func TestLadderToTheTop(t *testing.T) {
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
		rung  Rung
		words string
		nic   *nic
	}{
		{RungQueues, name + " has 1", with(func(n *nic) { n.queues = 1 })},
		{RungSplit, "it is off on " + name + "; ethtool -G " + name + " tcp-data-split on", with(func(n *nic) { n.split = splitOff })},
		{RungSplit, "cannot split headers", with(func(n *nic) { n.split = splitUnknown })},
		{RungSplit, "cannot split headers", with(func(n *nic) { n.silent = true })},
		{RungDriver, "operation not supported", with(func(n *nic) { n.driver = genltest.Error(int(unix.EOPNOTSUPP)) })},
		{RungExporter, "no such file or directory; modprobe udmabuf", with(func(n *nic) { n.export = &os.PathError{Op: "open", Path: exporter, Err: unix.ENOENT} })},
		{RungDriver, name + " takes no dmabuf: operation not supported", with(func(n *nic) { n.bindErr = genltest.Error(int(unix.EOPNOTSUPP)) })},
		{RungBind, "queue 3 of " + name + ": device or resource busy", with(func(n *nic) { n.bindErr = genltest.Error(int(unix.EBUSY)) })},
	} {
		_, err := open(options, c.nic.system())
		requireRung(t, err, c.rung, c.words)
		require.Empty(t, c.nic.set)
	}

	n := with(func(*nic) {})
	b, err := open(options, n.system())
	require.NoError(t, err)
	require.Equal(t, []any{uint32(77), 3, 4}, []any{b.ID, b.Queue, b.Queues})
	require.Len(t, b.Memory, 1<<20+1<<16)
	require.Len(t, n.bound, 1)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "once is enough")
	require.Empty(t, n.set, "header split was on")

	// With Split it is turned on, and off again: on Close, and where a later rung fails.
	options.Split = true
	n = with(func(n *nic) { n.split = splitOff })
	b, err = open(options, n.system())
	require.NoError(t, err)
	require.Equal(t, []uint8{splitOn}, n.set)
	require.NoError(t, b.Close())
	require.Equal(t, []uint8{splitOn, splitOff}, n.set)

	n = with(func(n *nic) { n.split, n.bindErr = splitOff, genltest.Error(int(unix.EBUSY)) })
	_, err = open(options, n.system())
	requireRung(t, err, RungBind, "device or resource busy")
	require.Equal(t, []uint8{splitOn, splitOff}, n.set)

	n = with(func(n *nic) { n.split, n.noSplit = splitOff, genltest.Error(int(unix.EINVAL)) })
	_, err = open(options, n.system())
	requireRung(t, err, RungSplit, "invalid argument; try ethtool -G "+name)
}

// skipWithout skips where the rungs that no NIC answers do not hold.
func skipWithout(t *testing.T) {
	t.Helper()
	b := &Binding{}
	for _, try := range []func(*Binding) *RungError{(*Binding).tryKernel, (*Binding).tryCapability} {
		if err := try(b); err != nil {
			t.Skipf("%v; %s", err.Err, err.Remedy)
		}
	}
}

// TestExporter makes a real dmabuf where the kernel can.
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
