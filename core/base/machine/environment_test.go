package machine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files into a new directory and returns it as a Root.
func tree(t *testing.T, files map[string]string) Root {
	t.Helper()
	root := Root(t.TempDir())
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(root.Path(name)), 0o755))
		require.NoError(t, os.WriteFile(root.Path(name), []byte(content), 0o644))
	}
	return root
}

const cpus = "sys/devices/system/cpu/"

// server is a machine with two sockets, SMT, a NIC and a CPU quota.
var server = map[string]string{
	"proc/cpuinfo": "processor\t: 0\nmodel " +
		"name\t: Example 9000\nflags\t\t: fpu tsc\n\nprocessor\t: 1\nmodel name\t: Other\n",
	"proc/sys/kernel/osrelease":          "6.12.1\n",
	"proc/sys/kernel/randomize_va_space": "1\n",
	"proc/meminfo": "MemTotal:       65011712 " +
		"kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n",
	"proc/loadavg": "0.50 1.25 2.00 1/234 " +
		"5678\n",
	"proc/self/status": "Name:\tx\n" +
		"Cpus_allowed_list:\t0-2\n",
	"proc/self/cgroup":                                                "0::/a/b\n",
	"sys/fs/cgroup/a/cpu.max":                                         "150000 100000\n",
	"sys/fs/cgroup/a/b/cpu.max":                                       "max 100000\n",
	cpus + "online":                                                   "0-3\n",
	cpus + "cpu0/topology/core_id":                                    "0\n",
	cpus + "cpu0/topology/physical_package_id":                        "0\n",
	cpus + "cpu0/node0/x":                                             "",
	cpus + "cpu0/cache/index3/id":                                     "0\n",
	cpus + "cpu1/topology/core_id":                                    "0\n",
	cpus + "cpu1/topology/physical_package_id":                        "0\n",
	cpus + "cpu1/node0/x":                                             "",
	cpus + "cpu1/cache/index3/id":                                     "0\n",
	cpus + "cpu2/topology/core_id":                                    "0\n",
	cpus + "cpu2/topology/physical_package_id":                        "1\n",
	cpus + "cpu2/node1/x":                                             "",
	cpus + "cpu2/cache/index3/id":                                     "4\n",
	cpus + "cpufreq/policy0/scaling_governor":                         "performance\n",
	cpus + "cpufreq/policy1/scaling_governor":                         "powersave\n",
	cpus + "cpufreq/policy2/scaling_governor":                         "performance\n",
	cpus + "intel_pstate/no_turbo":                                    "1\n",
	cpus + "smt/active":                                               "1\n",
	cpus + "vulnerabilities/alpha":                                    "Not affected\n",
	cpus + "vulnerabilities/beta":                                     "Mitigation: PTI\n",
	cpus + "vulnerabilities/gamma":                                    "Vulnerable: no microcode\n",
	"sys/devices/system/node/node0/x":                                 "",
	"sys/devices/system/node/node1/x":                                 "",
	"sys/devices/system/node/has_cpu":                                 "0-1\n",
	"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
	"sys/kernel/mm/transparent_hugepage/enabled":                      "always [madvise] never\n",
	"sys/kernel/mm/transparent_hugepage/shmem_enabled": "always within_size " +
		"advise [never] deny force\n",
	"sys/class/infiniband/mlx5_0/fw_ver":             "28.39.1002\n",
	"sys/class/infiniband/mlx5_0/hca_type":           "MT4129\n",
	"sys/class/infiniband/mlx5_0/board_id":           "MT_0000000838\n",
	"sys/class/infiniband/mlx5_0/device/numa_node":   "1\n",
	"sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n",
	"sys/class/infiniband/mlx5_0/ports/1/rate":       "400 Gb/sec (4X NDR)\n",
	"sys/class/infiniband/mlx5_0/ports/1/state":      "4: ACTIVE\n",
	"run/.containerenv":                              "",
}

func TestEnvironmentOfServer(t *testing.T) {
	want := Environment{
		Identity: Identity{
			CPU: "Example 9000", Arch: runtime.GOARCH, CPUs: 4, Cores: 3, Packages: 2,
			NUMANodes: 2, MemoryGiB: 62, Kernel: "6.12.1",
			RDMA: []RDMADevice{{
				Name: "mlx5_0", Type: "MT4129", Board: "MT_0000000838", Firmware: "28.39.1002",
				Node: 1,
				Ports: []RDMAPort{{Number: "1", LinkLayer: "InfiniBand",
					Rate: "400 Gb/sec (4X NDR)", State: "ACTIVE"}},
			}},
		},
		Volatile: Volatile{
			LoadAverage: "0.50 1.25 2.00", Governor: "performance x2, powersave x1", Turbo: "off",
			SMT:         "on",
			ClockSource: "hpet", HugePages: "madvise", SharedHugePages: "never", ASLR: "partial",
			Vulnerable: "gamma", Mitigated: "beta", AvailableMemory: 1 << 20, AllowedCPUs: "0-2",
			CPUQuota:  1.5,
			Container: "podman",
		},
	}
	require.Equal(t, want, tree(t, server).Environment())
}

func TestEnvironmentOfNothing(t *testing.T) {
	require.Equal(t, Environment{Identity: Identity{Arch: runtime.GOARCH}},
		tree(t, nil).Environment())
}

func TestEnvironmentOfThisMachine(t *testing.T) {
	environment := ReadEnvironment()
	require.Equal(t, runtime.GOARCH, environment.Identity.Arch)
	require.NotEmpty(t, environment.Identity.Kernel)
	require.NotEmpty(t, environment.Volatile.AllowedCPUs)
	encoded, err := json.Marshal(environment)
	require.NoError(t, err)
	var back Environment
	require.NoError(t, json.Unmarshal(encoded, &back))
	for i := range environment.Identity.RDMA {
		for j := range environment.Identity.RDMA[i].Ports {
			environment.Identity.RDMA[i].Ports[j].State = ""
		}
	}
	require.Equal(t, environment, back)
}

func TestCPUModel(t *testing.T) {
	for _, test := range []struct{ cpuinfo, want string }{
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "Arm Neoverse V1"},
		{"processor\t: 0\nCPU implementer\t: 0x99\nCPU part\t: 0x001\n",
			"implementer 0x99 part 0x001"},
		{"rubbish", ""},
	} {
		require.Equal(t, test.want, tree(t, map[string]string{"proc/cpuinfo": test.cpuinfo}).
			cpuModel())
	}
}

func TestVirtualisation(t *testing.T) {
	const dmi, flags = "sys/class/dmi/id/", "flags : fpu hypervisor\n"
	const available = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	for _, test := range []struct {
		files map[string]string
		want  string
	}{
		{nil, ""},
		{map[string]string{"sys/hypervisor/type": "xen\n"}, "xen"},
		{map[string]string{"proc/cpuinfo": flags, dmi + "sys_vendor": "QEMU\n"}, "kvm"},
		{map[string]string{dmi + "sys_vendor": "VMware, Inc.\n",
			dmi + "product_name": "VMware7,1\n"}, "vmware"},
		{map[string]string{dmi + "sys_vendor": "Microsoft Corporation\n",
			dmi + "product_name": "Virtual Machine\n"}, "hyper-v"},
		{map[string]string{"proc/cpuinfo": flags, available: "tsc kvm-clock acpi_pm\n"}, "kvm"},
		{map[string]string{"proc/cpuinfo": flags, dmi + "sys_vendor": "Amazon EC2\n",
			dmi + "product_name": "c7i.large\n"}, "nitro"},
		{map[string]string{dmi + "sys_vendor": "Amazon EC2\n",
			dmi + "product_name": "c7i.metal-24xl\n"}, ""},
		{map[string]string{"proc/cpuinfo": flags}, "unknown hypervisor"},
		{map[string]string{"proc/device-tree/hypervisor/compatible": "x"}, "unknown hypervisor"},
		{map[string]string{dmi + "sys_vendor": "Dell Inc.\n", dmi + "product_name": "PowerEdge\n"},
			""},
	} {
		require.Equal(t, test.want, tree(t, test.files).virtualisation(), "%v", test.files)
	}
}

func TestCPUQuota(t *testing.T) {
	const v1 = "sys/fs/cgroup/cpu,cpuacct/"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"none", map[string]string{"proc/self/cgroup": "0::/\n"}, 0},
		{"least of the ancestors", map[string]string{
			"proc/self/cgroup":          "0::/a/b\n",
			"sys/fs/cgroup/a/cpu.max":   "50000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
		}, 0.5},
		{"path of another namespace", map[string]string{
			"proc/self/cgroup":      "0::/../../docker/abc\n",
			"sys/fs/cgroup/cpu.max": "200000 100000\n",
		}, 2},
		{"version 1", map[string]string{
			"proc/self/cgroup":          "9:memory:/m\n4:cpu,cpuacct:/x\n0::/\n",
			v1 + "x/cpu.cfs_quota_us":   "300000\n",
			v1 + "x/cpu.cfs_period_us":  "100000\n",
			v1 + "cpu.cfs_quota_us":     "-1\n",
			v1 + "cpu.cfs_period_us":    "100000\n",
			"sys/fs/cgroup/m/cpu.max":   "1 100000\n",
			"sys/fs/cgroup/cpu/cpu.max": "max 100000\n",
		}, 3},
		{"rubbish", map[string]string{"proc/self/cgroup": "x\n\n1:\n0::/\n",
			"sys/fs/cgroup/cpu.max": "a b c\n"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, tree(t, test.files).CPUQuota())
		})
	}
}

func TestTopology(t *testing.T) {
	got, err := tree(t, server).Topology()
	require.NoError(t, err)
	require.Equal(t, []CPU{
		{ID: 0, Core: 0, Package: 0, Node: 0, Cache: 0},
		{ID: 1, Core: 0, Package: 0, Node: 0, Cache: 0},
		{ID: 2, Core: 0, Package: 1, Node: 1, Cache: 4},
		{ID: 3, Core: -1, Package: -1, Node: -1, Cache: -1},
	}, got)
	require.Equal(t, 3, Cores(got))

	_, err = tree(t, nil).Topology()
	require.ErrorContains(t, err, "sysfs")
	_, err = tree(t, map[string]string{cpus + "online": "many\n"}).Topology()
	require.ErrorContains(t, err, "many")

	here, err := Topology()
	require.NoError(t, err)
	require.NotEmpty(t, here)
}
