//go:build ibverbs

package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma/internal/ibverbs"
	"transportbench/core/fabric/rdma/internal/objects"
	"transportbench/core/transport"
)

// verbsDevice is an open port of an RDMA device. The verbs calls are in internal/ibverbs.
type verbsDevice struct {
	context    *ibverbs.Context
	attributes Attributes
	port       ibverbs.Port
	gid        [16]byte
	notReady   uint64 // the hardware's count at Open

	objects.Set
}

// OpenVerbs opens a device of verbs. Package devices chooses between the providers.
func OpenVerbs(o Options) (Device, error) {
	if err := ibverbs.Load(); err != nil {
		return nil, transport.Unavailable("%w", err)
	}
	names, err := ibverbs.Devices()
	if err != nil {
		return nil, transport.Unavailable(
			"list RDMA devices: %w; is the kernel module ib_uverbs loaded?", err)
	}
	if len(names) == 0 {
		return nil, transport.Unavailable(
			"no RDMA device on this machine; to set up Soft-RoCE see docs/rdma.md")
	}
	if o.Device != "" {
		if !slices.Contains(names, o.Device) {
			return nil, transport.Unavailable("no RDMA device %q; there is %s", o.Device,
				strings.Join(names, ", "))
		}
		names = []string{o.Device}
	}
	var errs []error
	for _, name := range names {
		d, err := openDevice(name, o)
		if err == nil {
			return d, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func openDevice(name string, o Options) (*verbsDevice, error) {
	context, err := ibverbs.Open(name)
	if err != nil {
		return nil, transport.Unavailable("open RDMA device %s: %w", name, err)
	}
	d := &verbsDevice{context: context, Set: objects.New()}
	if err := d.choose(name, o); err != nil {
		return nil, errors.Join(err, context.Close())
	}
	d.notReady = d.countNotReady()
	return d, nil
}

// choose selects the port and its GID.
func (d *verbsDevice) choose(name string, o Options) error {
	limits, err := d.context.Limits()
	if err != nil {
		return transport.Unavailable("%s: %w", name, err)
	}
	if o.Port > limits.Ports {
		return transport.Unavailable("%s has no port %d; it has %d", name, o.Port, limits.Ports)
	}
	first, last := max(o.Port, 1), o.Port
	if o.Port == 0 {
		last = limits.Ports
	}
	number := 0
	for i := first; i <= last; i++ {
		if d.port, err = d.context.Port(i); err != nil {
			return transport.Unavailable("%s port %d: %w", name, i, err)
		}
		if d.port.Active {
			number = i
			break
		}
		err = transport.Unavailable(
			"%s port %d is down (%s): bring its network interface up, or plug in its cable", name,
			i, d.port.State)
	}
	if number == 0 {
		return err
	}
	d.attributes = Attributes{Provider: Verbs, Name: name, Port: number, Link: "InfiniBand",
		MTU:           d.port.MTU,
		Libraries:     map[string]string{"libibverbs": libraryVersion()},
		MaxQueuePairs: limits.Pairs, MaxSendDepth: limits.Depth, MaxReceiveDepth: limits.Depth,
		MaxShared:      limits.Shared,
		MaxCompletions: limits.Completions, MaxMessage: d.port.MaxMessage,
		MaxReadsInFlight: limits.Reads,
		Atomics:          limits.Atomics}
	if d.port.Ethernet {
		d.attributes.Link = transport.LinkEthernet
	}
	return d.chooseGID(o, limits.Ports)
}

// chooseGID selects the entry that the options name, or the preferred one; see Options.
func (d *verbsDevice) chooseGID(o Options, ports int) error {
	a := &d.attributes
	all, err := d.context.GIDs(ports)
	if err != nil {
		return transport.Unavailable("%s: %w", a.Name, err)
	}
	best, bestScore := ibverbs.GID{Index: -1}, -1
	var indices []string
	for _, g := range all {
		if g.Port != a.Port {
			continue
		}
		indices = append(indices, strconv.Itoa(g.Index))
		score := 0
		switch {
		case o.GIDIndex != AnyGID:
			score = -1
			if g.Index == o.GIDIndex {
				score = 0
			}
		case !d.port.Ethernet:
		case g.Version2 && netip.AddrFrom16(g.Raw).Is4In6():
			score = 2
		case g.Version2:
			score = 1
		}
		if score > bestScore {
			best, bestScore = g, score
		}
	}
	if best.Index < 0 {
		return transport.Unavailable("%s port %d has no GID of index %d; its table has %s "+
			"(show_gids, or /sys/class/infiniband/%s/ports/%d/gids)",
			a.Name, a.Port, o.GIDIndex, strings.Join(indices, ", "), a.Name, a.Port)
	}
	a.GIDIndex, a.GID, d.gid = best.Index, netip.AddrFrom16(best.Raw).String(), best.Raw
	return nil
}

// libraryVersion returns the version in the file name of the shared library. It looks only
// once because that is the slowest part of openVerbs on a network file system.
var libraryVersion = sync.OnceValue(func() string {
	for _, dir := range []string{"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib"} {
		if found, _ := filepath.Glob(filepath.Join(dir, "libibverbs.so.1.*")); len(found) > 0 {
			return strings.TrimPrefix(filepath.Base(found[0]), "libibverbs.so.")
		}
	}
	return "unknown"
})

func (d *verbsDevice) Attributes() Attributes { return d.attributes }

// countNotReady returns the sum of the drivers' receiver-not-ready counters, those of mlx5
// and rxe.
func (d *verbsDevice) countNotReady() (sum uint64) {
	dir := fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/hw_counters", d.attributes.Name,
		d.attributes.Port)
	for _, name := range []string{"rnr_nak_retry_err", "out_of_buffer", "send_rnr_err",
		"rcvd_rnr_err"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		sum += n
	}
	return sum
}

func (d *verbsDevice) ReceiverNotReady() uint64 { return d.countNotReady() - d.notReady }

// Close implements [Device].
func (d *verbsDevice) Close() error {
	errs, first := d.CloseAll()
	if !first {
		return nil
	}
	return errors.Join(append(errs, d.context.Close())...)
}

// Allocate implements [Device].
func (d *verbsDevice) Allocate(size int, access Access) (*Region, error) {
	if size < 1 {
		return nil, Invalid("region of %d bytes", size)
	}
	if d.IsClosed() {
		return nil, ErrClosed
	}
	began := time.Now()
	bytes, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	memory, err := d.context.Register(bytes, uint32(access))
	if err != nil {
		return nil, errors.Join(explainNoRegion(err, size), unix.Munmap(bytes))
	}
	d.AddRegistered(uint64(size), time.Since(began))
	r := &Region{Bytes: bytes, Address: memory.Address, LocalKey: memory.LocalKey,
		Remote: RemoteRegion{Address: memory.Address, Key: memory.RemoteKey, Length: uint64(size)}}
	r.Free = func() error {
		d.Disown(r)
		return errors.Join(memory.Deregister(), unix.Munmap(bytes))
	}
	return r, d.Adopt(r, objects.Memory)
}
