package datagram_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func udp(o datagram.UDPOptions) func() (datagram.Port, error) {
	if !o.Address.IsValid() {
		o.Address = netip.MustParseAddrPort("127.0.0.1:0")
	}
	return func() (datagram.Port, error) { return datagram.OpenUDP(o) }
}

// onDevice is a verbs port that owns its device.
type onDevice struct {
	*datagram.Verbs
	device rdma.Device
}

func (p onDevice) Close() error { return errors.Join(p.Verbs.Close(), p.device.Close()) }

func verbs(device rdma.Options, o datagram.VerbsOptions) func() (datagram.Port, error) {
	return func() (datagram.Port, error) {
		d, err := devices.Open(device)
		if err != nil {
			return nil, err
		}
		p, err := datagram.OpenVerbs(d, o)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return onDevice{p, d}, nil
	}
}

func withFaults(open func() (datagram.Port, error), send, receive faulty.Faults) func() (
	datagram.Port, error) {
	return func() (datagram.Port, error) {
		p, err := open()
		if err != nil {
			return nil, err
		}
		return faulty.New(p, send, receive)
	}
}

// needIPv6 skips a test if the machine has no IPv6.
func needIPv6(t *testing.T) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	require.NoError(t, c.Close())
}

func TestUDPConformance(t *testing.T) {
	for name, o := range map[string]datagram.UDPOptions{
		"default":         {},
		"ipv6":            {Address: netip.MustParseAddrPort("[::1]:0")},
		"ethernet":        {MTU: datagram.UDPEthernetMTU, Offload: datagram.OffloadOn},
		"without-offload": {MTU: 4096, Offload: datagram.OffloadOff},
		"small":           {MTU: 256, Batch: 3, SendBuffer: 4096, ReceiveBuffer: 4096},
		"largest":         {MTU: datagram.UDPMaxMTU, Batch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" {
				needIPv6(t)
			}
			runSuite(t, suite{Open: udp(o)})
		})
	}
}

func TestSoftConformance(t *testing.T) {
	for name, o := range map[string]datagram.VerbsOptions{
		"default": {},
		"smallest": {MTU: 256, Batch: 1, SendDepth: 2, ReceiveDepth: 3, SignalInterval: 1,
			Inline: -1},
		"inline": {MTU: 1024, Batch: 16, SendDepth: 128, ReceiveDepth: 64, SignalInterval: 64,
			Inline: 200},
	} {
		t.Run(name, func(t *testing.T) {
			runSuite(t, suite{
				Open: verbs(rdma.Options{Provider: rdma.Soft}, o)})
		})
	}
}

// TestProbeOnOneProcessor: a probe's queues hold a whole message, however shallow those of its port
// are. On one processor nobody receives while a message is sent.
func TestProbeOnOneProcessor(t *testing.T) {
	var allowed, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	for name, open := range map[string]func() (datagram.Port, error){
		"udp": udp(datagram.UDPOptions{MTU: 256, SendBuffer: 4096, ReceiveBuffer: 4096}),
		"soft": verbs(rdma.Options{Provider: rdma.Soft},
			datagram.VerbsOptions{MTU: 256, SendDepth: 2, ReceiveDepth: 3}),
	} {
		t.Run(name, func(t *testing.T) {
			var ports [2]datagram.Port
			for i := range ports {
				p, err := open()
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				ports[i] = p
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var floors [2]transport.Floor
			var errs [2]error
			var wait sync.WaitGroup
			for i, p := range ports {
				to, err := p.Open(ports[1-i].Address())
				require.NoError(t, err)
				wait.Go(func() {
					runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
					if errs[i] = unix.SchedSetaffinity(0, &one); errs[i] == nil {
						floors[i], errs[i] = p.(datagram.Prober).Probe(ctx, to,
							transport.Probe{Kind: transport.ProbeMedium,
								Initiate: i == 0, Duration: time.Millisecond, Forth: 3000,
								Back: 10_000})
					}
				})
			}
			wait.Wait()
			require.NoError(t, errors.Join(errs[:]...))
			require.Positive(t, floors[0].Samples)
		})
	}
	p, err := verbs(rdma.Options{Provider: rdma.Soft}, datagram.VerbsOptions{MTU: 256})()
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	to, err := p.Open(p.Address())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = p.(datagram.Prober).Probe(ctx, to, transport.Probe{Kind: transport.ProbeMedium,
		Initiate: true, Back: 100_000})
	require.ErrorIs(t, err, transport.ErrUnsupported, "more datagrams than receives")
}

func TestFaultyConformance(t *testing.T) {
	bad := faulty.Faults{Drop: 0.1, Duplicate: 0.2, Reorder: 0.2, Delay: 0.1}
	for name, open := range map[string]func() (datagram.Port, error){
		"udp":  udp(datagram.UDPOptions{MTU: 1472}),
		"soft": verbs(rdma.Options{Provider: rdma.Soft}, datagram.VerbsOptions{}),
	} {
		t.Run(name+"-unharmed", func(t *testing.T) {
			runSuite(t, suite{
				Open: withFaults(open, faulty.Faults{}, faulty.Faults{})})
		})
		t.Run(name+"-bad", func(t *testing.T) {
			runSuite(t, suite{Open: withFaults(open, bad, bad), Lossy: true})
		})
	}
}
