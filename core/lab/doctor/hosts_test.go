package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
)

func TestCompareHosts(t *testing.T) {
	like := func(name string, change func(*machine.Environment)) Host {
		e := machine.Environment{
			Identity: machine.Identity{CPU: "A", CPUs: 8, Kernel: "6.1"},
			Volatile: machine.Volatile{Governor: "performance", LoadAverage: name, AvailableMemory: uint64(len(name))},
		}
		change(&e)
		return Host{name, e}
	}
	same := func(*machine.Environment) {}
	alike, err := Compare([]Host{like("a", same), like("bb", same), like("c", same)})
	require.NoError(t, err)
	require.Equal(t, []Finding{{Name: "hosts", Value: "the same on a, bb and c", Status: OK, Meaning: "Ranks find the same on each host."}}, alike)

	unlike, err := Compare([]Host{like("a", same), like("b", func(e *machine.Environment) { e.Volatile.Governor = "powersave" }),
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
	require.Equal(t, "8 on a and b; 4 on c", values["hosts: cpus"])
	require.Equal(t, "performance on a and c; powersave on b", values["hosts: governor"])
	require.Regexp(t, `^none on a and b; .*mlx5_0.* on c$`, values["hosts: rdma"])
}
