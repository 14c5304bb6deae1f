package doctor

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

func TestCompareHosts(t *testing.T) {
	like := func(name string, change func(*machine.Environment)) Host {
		e := machine.Environment{
			Identity: machine.Identity{CPU: "A", CPUs: 8, Kernel: "6.1"},
			Volatile: machine.Volatile{Governor: "performance", LoadAverage: name,
				AvailableMemory: uint64(len(name))},
		}
		change(&e)
		return Host{Name: name, Environment: e}
	}
	same := func(*machine.Environment) {}
	alike, err := Compare([]Host{like("a", same), like("bb", same), like("c", same)})
	require.NoError(t, err)
	require.Equal(t, []Finding{{Name: "hosts", Value: "the same on a, bb and c", Status: OK,
		Meaning: "Ranks find the same on each host."}}, alike)

	unlike, err := Compare([]Host{like("a", same),
		like("b", func(e *machine.Environment) { e.Volatile.Governor = "powersave" }),
		like("c", func(e *machine.Environment) {
			e.Identity.CPUs = 4
			e.Identity.RDMA = []machine.RDMADevice{{Name: "mlx5_0"}}
		})})
	require.NoError(t, err)
	values := map[string]string{}
	for _, f := range unlike {
		require.Equal(t, Warn, f.Status)
		values[f.Name] = f.Value
	}
	require.Len(t, values, 3)
	unlike, err = Compare(unlikeDevices())
	require.NoError(t, err)
	require.Equal(t, Finding{Name: "hosts: plugin tcpx", Value: "b and c: another file",
		Status: Bad, Meaning: "Runs of tcpx on these hosts are refused."}, unlike[0])
	lines := []string{}
	for _, f := range unlike[1:] {
		require.Equal(t, Warn, f.Status)
		lines = append(lines, f.Name+" = "+f.Value)
	}
	require.Equal(t, []string{
		"hosts: interface eth0 = MTU 1500, 1000 Mbit/s on a; MTU 9000, 1000 Mbit/s on b; MTU " +
			"1500 on c",
		"hosts: library libucp = 1.13 on a and b; not installed on c",
		"hosts: why ofi is unavailable = none on a and b; no libfabric on c",
	}, lines)
	require.Equal(t, "8 on a and b; 4 on c", values["hosts: cpus"])
	require.Equal(t, "performance on a and c; powersave on b", values["hosts: governor"])
	require.Regexp(t, `^none on a and b; .*mlx5_0.* on c$`, values["hosts: rdma"])
}

// unlikeDevices are hosts that differ in what they have besides their environments.
func unlikeDevices() []Host {
	hosts := make([]Host, 3)
	for i := range hosts {
		hosts[i] = Host{
			Name: []string{"a", "b", "c"}[i],
			Interfaces: []machine.NetworkDevice{
				{Name: "eth0", MTU: 1500, Speed: 1000,
					Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}},
				{Name: "lo", MTU: 65536 + i,
					Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
				{Name: "veth1", MTU: 1500 + i,
					Addresses: []netip.Addr{netip.MustParseAddr("fe80::1")}},
			},
			Libraries: map[string]string{"libucp": "1.13"},
			Plugins:   map[string]Plugin{"ofi": {}, "tcpx": {}},
		}
	}
	hosts[1].Interfaces[0].MTU, hosts[2].Interfaces[0].Speed = 9000, 0
	hosts[2].Libraries["libucp"], hosts[2].Plugins["ofi"] = "not installed",
		Plugin{Unavailable: "no libfabric"}
	hosts[1].Plugins["tcpx"] = Plugin{Refused: errors.New("another file")}
	hosts[2].Plugins["tcpx"] = hosts[1].Plugins["tcpx"]
	return hosts
}
