package doctor

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
)

type files map[string]string

const (
	cpu   = "sys/devices/system/cpu/"
	nic   = "sys/class/infiniband/mlx5_0/"
	shm   = "dev/shm/x"
	verbs = "usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.50.0"
)

// quietServer is a machine without any problem.
var quietServer = files{
	"proc/meminfo": "MemTotal: 1 kB\nHugePages_Total: " +
		"512\nHugePages_Free: 512\nHugepagesize: 2048 kB\n",
	"proc/loadavg": "0.10 0.00 0.00 1/234 5678\n",
	"proc/self/limits": "Limit   Soft Limit   Hard Limit  Units\nMax " +
		"locked memory         unlimited            unlimited            bytes     \n",
	"proc/self/status":                           "CapEff:\t0000000000000000\n",
	"proc/sys/kernel/randomize_va_space":         "2\n",
	cpu + "online":                               "0-3\n",
	cpu + "isolated":                             "2-3\n",
	cpu + "nohz_full":                            "2-3\n",
	cpu + "cpufreq/policy0/scaling_governor":     "performance\n",
	cpu + "cpufreq/boost":                        "0\n",
	cpu + "smt/active":                           "0\n",
	"sys/devices/system/node/node0/x":            "",
	"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
	nic + "fw_ver":                               "28.39.1002\n",
	nic + "hca_type":                             "MT4129\n",
	nic + "device/numa_node":                     "0\n",
	nic + "ports/1/state":                        "4: ACTIVE\n",
	nic + "ports/1/link_layer":                   "InfiniBand\n",
	nic + "ports/1/rate":                         "400 Gb/sec (4X NDR)\n",
	"dev/infiniband/uverbs0":                     "",
	shm:                                          "",
	verbs:                                        "",
	"usr/include/infiniband/verbs.h":             "",
	"usr/lib/x86_64-linux-gnu/libucp.so.0.0.0":   "",
	"usr/include/ucp/api/ucp.h":                  "",
	"usr/lib/x86_64-linux-gnu/libfabric.so.1":    "",
	"usr/include/rdma/fabric.h":                  "",
	"opt/driver/libcuda.so.570.1":                "",
	"etc/ld.so.conf.d/driver.conf":               "# the GPU's driver\n/opt/driver\n",
	"var/lib/dpkg/status": "Package: libibverbs1\nStatus: install ok " +
		"installed\nVersion: 50.0-2\n\nPackage: libucx0\nStatus: deinstall ok " +
		"config-files\nVersion: 1.0\n",
}

// examinerOf returns an examiner of quietServer with some files changed; the content "-" removes a
// file.
func examinerOf(t *testing.T, changes files) *examiner {
	t.Helper()
	all := maps.Clone(quietServer)
	maps.Copy(all, changes)
	root := machine.Root(t.TempDir())
	for name, content := range all {
		if content == "-" {
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(root.Path(name)), 0o755))
		require.NoError(t, os.WriteFile(root.Path(name), []byte(content), 0o644))
	}
	return &examiner{
		root: root, arch: "amd64", pollers: 2,
		allowed:  func() ([]int, error) { return []int{0, 1, 2, 3}, nil },
		clock:    func() (string, string) { return "tsc", "" },
		counters: func() (bool, error) { return false, nil },
		filesystem: func(path string) (uint64, uint64, error) {
			_, err := os.Stat(path)
			return 8 << 30, 4 << 30, err
		},
		shareMemfd: func() error { return nil },
		openPidfd:  func() error { return nil },
		find: func(identity map[string]string) calibration.Found {
			return calibration.Found{Identity: identity, Document: recent()}
		},
		version: "1.2.3", runtime: "aaaabbbbccccdddd",
		now: func() time.Time { return time.Date(2026, 3, 14, 6, 0, 0, 0, time.UTC) },
	}
}

// recent returns a calibration of ten days ago.
func recent() *calibration.Document {
	return &calibration.Document{
		StartedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Alpha: 0.05,
		Tool:   result.Tool{Version: "1.2.3"},
		Plugin: result.Plugin{RuntimeDigest: "aaaabbbbccccdddd"},
		Recovery: []calibration.Recovery{
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 200,
				Measured: calibration.Estimate{Value: 203}, Tolerance: 10, Within: true},
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 500,
				Measured: calibration.Estimate{Value: 600}, Tolerance: 15},
			{Quantity: "delay of half of the calls", Unit: "ns", Known: 50,
				Measured: calibration.Estimate{Value: 53}},
		},
		FalseVerdicts: []calibration.FalseVerdicts{
			{Method: "along", Comparisons: 200, False: 2, Share: calibration.Estimate{Value: 0.01}},
			{Method: "diff", Comparisons: 200, False: 7, Share: calibration.Estimate{Value: 0.035}},
			{Method: "ab", Comparisons: 200, False: 2, Share: calibration.Estimate{Value: 0.01}},
		},
		Drift: &calibration.Drift{ApartS: 480, Comparisons: 200, Repeats: 10, Limit: 0.01},
		Power: []calibration.Power{{Class: "memory", Repeats: 20, Trials: []calibration.Trials{
			{Known: 0.05, Count: 30, Found: 29, Share: calibration.Estimate{Value: 29. / 30}},
		}}},
	}
}

// withCalibration returns a change of the examiner that finds f.
func withCalibration(edit func(f *calibration.Found)) func(*examiner) {
	return func(x *examiner) {
		x.find = func(map[string]string) calibration.Found {
			f := calibration.Found{Document: recent()}
			edit(&f)
			return f
		}
	}
}

// requireWellFormed checks properties of findings on any machine.
func requireWellFormed(t *testing.T, findings []Finding) {
	t.Helper()
	names := make(map[string]bool)
	for _, f := range findings {
		require.NotEmpty(t, f.Name)
		require.False(t, names[f.Name], "%s found twice", f.Name)
		names[f.Name] = true
		require.NotEmpty(t, f.Value, f.Name)
		require.True(t, strings.HasSuffix(f.Meaning, "."), "%s: %q", f.Name, f.Meaning)
		require.NotContains(t, f.Value+f.Meaning+f.Remedy, "\n", f.Name)
		require.Contains(t, []Status{OK, Note, Warn, Bad}, f.Status, f.Name)
		if f.Status == OK {
			require.Empty(t, f.Remedy, f.Name)
		}
		if f.Status == Warn || f.Status == Bad {
			require.NotEmpty(t, f.Remedy, f.Name)
		}
	}
}

func TestQuietServer(t *testing.T) {
	findings := examinerOf(t, nil).examine(t.Context())
	requireWellFormed(t, findings)
	values := make(map[string]string)
	for _, f := range findings {
		require.Equal(t, OK, f.Status, "%+v", f)
		values[f.Name] = f.Value
	}
	require.Equal(t, map[string]string{
		"cores": "4 cores, CPUs 0-3", "cpu-quota": "none", "load": "0.10 0.00 0.00",
		"governor": "performance",
		"turbo":    "off", "smt": "off", "virtualisation": "none seen",
		"isolation": "isolated 2-3, without tick 2-3",
		"numa":      "1 node", "clock": "tsc", "perf-events": "available",
		"mitigations": "none seen",
		"aslr":        "full",
		"huge-pages":  "512 of 512 free, 2048 kB each", "transparent-huge-pages": "madvise",
		"locked-memory": "unlimited",
		"dev-shm":       "4 GiB free of 8 GiB", "memfd": "shared through /proc",
		"rdma mlx5_0": "MT4129 firmware 28.39.1002; port 1 InfiniBand ACTIVE 400 Gb/sec (4X " +
			"NDR); NUMA node 0",
		"libibverbs":  "50.0-2, /usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.50.0",
		"libucp":      "/usr/lib/x86_64-linux-gnu/libucp.so.0.0.0",
		"libfabric":   "/usr/lib/x86_64-linux-gnu/libfabric.so.1",
		"libcuda":     "/opt/driver/libcuda.so.570.1",
		"calibration": "2026-03-04 (10 days old), version 1.2.3, full",
	}, values)
}

func TestFaults(t *testing.T) {
	limit := func(soft string) string {
		return "Max locked memory         " + soft + "              " + soft +
			"              bytes     \n"
	}
	tests := []struct {
		fault   string
		changes files
		kernel  func(x *examiner)
		name    string
		status  Status
		want    string // part of the value, meaning or remedy
	}{
		{"one core", nil, func(x *examiner) {
			x.allowed = func() ([]int, error) {
				return []int{1},
					nil
			}
		}, "cores", Warn, "1 core, CPUs 1"},
		{"no core to spare", nil, func(x *examiner) {
			x.allowed = func() ([]int, error) { return []int{0, 1}, nil }
		}, "cores", Note, "outliers"},
		{"two threads of one core", files{
			cpu + "cpu0/topology/core_id": "0", cpu + "cpu1/topology/core_id": "0",
		}, func(x *examiner) { x.allowed = func() ([]int, error) { return []int{0, 1}, nil } },
			"cores", Warn, "1 core, CPUs 0-1"},
		{"affinity unreadable", nil, func(x *examiner) {
			x.allowed = func() ([]int, error) { return nil, unix.EPERM }
		}, "cores", Note, "not permitted"},
		{"quota below pollers", files{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/cpu.max": "150000 100000"}, nil, "cpu-quota", Warn, "1.5 CPUs"},
		{"quota that suffices", files{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/cpu.max": "300000 100000"}, nil, "cpu-quota", OK, "3 CPUs"},
		{"busy machine", files{"proc/loadavg": "3.00 2.00 1.00 1/2 3\n"}, nil, "load",
			Warn, "3.00"},
		{"slow governor", files{cpu + "cpufreq/policy1/scaling_governor": "powersave"}, nil,
			"governor", Warn, "powersave x1"},
		{"no cpufreq", files{cpu + "cpufreq/policy0/scaling_governor": "-"}, nil, "governor", Note,
			"not visible"},
		{"turbo", files{cpu + "cpufreq/boost": "1"}, nil, "turbo", Note, "repeatable"},
		{"SMT", files{cpu + "smt/active": "1"}, nil, "smt", Note, "share"},
		{"virtual machine", files{"sys/hypervisor/type": "xen"}, nil, "virtualisation",
			Warn, "xen"},
		{"container on metal", files{".dockerenv": ""}, nil, "virtualisation", OK,
			"in a container (docker)"},
		{"no isolation", files{cpu + "isolated": "", cpu + "nohz_full": " (null)\n"}, nil,
			"isolation", Note, "isolcpus="},
		{"two nodes", files{"sys/devices/system/node/node1/x": ""}, nil, "numa", Note, "2 nodes"},
		{"balancing", files{"sys/devices/system/node/node1/x": "",
			"proc/sys/kernel/numa_balancing": "1"}, nil, "numa", Warn, "numa_balancing=0"},
		{"slow clock", nil, func(x *examiner) {
			x.clock = func() (string, string) {
				return "monotonic",
					"the kernel keeps time by hpet"
			}
		}, "clock", Warn, "hpet"},
		{"no counters", nil, func(x *examiner) {
			x.counters = func() (bool, error) {
				return false, &machine.CountersError{Reason: "no unit", Remedy: "get one",
					Err: unix.ENOENT}
			}
		}, "perf-events", Note, "get one"},
		{"user counters", nil, func(x *examiner) {
			x.counters = func() (bool, error) {
				return true,
					nil
			}
		}, "perf-events", Note, "user mode"},
		{"mitigations", files{cpu + "vulnerabilities/meltdown": "Mitigation: PTI"}, nil,
			"mitigations", Note, "meltdown"},
		{"fixed addresses", files{"proc/sys/kernel/randomize_va_space": "0"}, nil, "aslr", Note,
			"lucky"},
		{"no huge pages", files{"proc/meminfo": "HugePages_Total: 0\nHugePages_Free: 0\n"}, nil,
			"huge-pages", Note, "nr_hugepages"},
		{"eager huge pages",
			files{"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"}, nil,
			"transparent-huge-pages", Note, "stalls"},
		{"low memlock with NIC", files{"proc/self/limits": limit("65536")}, nil, "locked-memory",
			Bad, "ulimit -l"},
		{"low memlock without NIC", files{
			"proc/self/limits": limit("65536"), nic + "fw_ver": "-", nic + "hca_type": "-",
			nic + "device/numa_node": "-",
			nic + "ports/1/state":    "-", nic + "ports/1/link_layer": "-",
			nic + "ports/1/rate": "-",
		}, nil, "locked-memory", Note, "64 KiB"},
		{"memlock lifted", files{"proc/self/limits": limit("65536"),
			"proc/self/status": "CapEff:\t0000000000004000\n"}, nil, "locked-memory", OK,
			"CAP_IPC_LOCK"},
		{"no /dev/shm", files{shm: "-"}, nil, "dev-shm", Warn, "mount -t tmpfs"},
		{"small /dev/shm", nil, func(x *examiner) {
			x.filesystem = func(string) (uint64, uint64, error) { return 64 << 20, 60 << 20, nil }
		}, "dev-shm", Warn, "60 MiB free of 64 MiB"},
		{"no memfd", nil, func(x *examiner) {
			x.shareMemfd = func() error { return errors.New("memfd_create: refused") }
		}, "memfd", Warn, "refused"},
		{"no pidfd", nil, func(x *examiner) { x.openPidfd = func() error { return unix.ENOSYS } },
			"memfd", Note, "5.3"},
		{"NIC not passed on", files{"dev/infiniband/uverbs0": "-"}, nil, "rdma mlx5_0", Bad,
			"--device=/dev/infiniband"},
		{"port down", files{nic + "ports/1/state": "1: DOWN"}, nil, "rdma mlx5_0", Warn, "DOWN"},
		{"soft device", files{"sys/class/infiniband/rxe0/ports/1/state": "4: ACTIVE"}, nil,
			"rdma rxe0", Note, "in software"},
		{"no library", files{verbs: "-"}, nil, "libibverbs", Note,
			"apt-get install libibverbs-dev"},
		{"another architecture's library",
			files{verbs: "-", "usr/lib/i386-linux-gnu/libibverbs.so.1": "",
				"etc/ld.so.conf.d/i386.conf": "/usr/lib/i386-linux-gnu\n"}, nil, "libibverbs", Note,
			"not installed"},
		{"no headers", files{"usr/include/infiniband/verbs.h": "-"}, nil, "libibverbs", Note,
			"headers"},
		{"no calibration", nil, withCalibration(func(f *calibration.Found) { f.Document = nil }),
			"calibration", Note, "none on this machine"},
		{"calibration of another kernel", nil, withCalibration(func(f *calibration.Found) {
			f.Document, f.Unused = nil,
				[]string{"x.json is of another machine: kernel \"6.1\" instead of \"6.2\""}
		}), "calibration", Warn, "kernel \"6.1\" instead of"},
		{"calibration without a drift", nil,
			withCalibration(func(f *calibration.Found) { f.Document.Drift = nil }), "calibration",
			Note, "version 1.2.3, full"},
		{"quick calibration", nil, withCalibration(
			func(f *calibration.Found) { f.Document.Quick = true }), "calibration", Note,
			"version 1.2.3, quick, too short to bound rates and power"},
		{"machine that drifts", nil, withCalibration(
			func(f *calibration.Found) {
				f.Document.Drift = &calibration.Drift{ApartS: 480,
					Limit: 0.22}
			}),
			"calibration", Warn,
			"equal sets that were measured 8 minutes apart, 95% differ by no more than 22%"},
		{"machine that hardly drifts", nil,
			withCalibration(func(f *calibration.Found) {
				f.Document.Drift = &calibration.Drift{ApartS: 480, Limit: 0.01}
			}),
			"calibration", OK, "2026-03-04 (10 days old)"},
		{"calibration of today", nil, withCalibration(func(f *calibration.Found) {
			f.Document.StartedAt, f.Document.Plugin.RuntimeDigest = time.Date(2026, 3, 14, 1, 0, 0,
				0, time.UTC), "eeeeffff"
		}), "calibration", Warn, "2026-03-14 (today)"},
		{"calibration of another runtime", nil,
			withCalibration(func(f *calibration.Found) {
				f.Document.Plugin.RuntimeDigest = "eeeeffff"
			}),
			"calibration", Warn, "measured with runtime eeeeffff, and this has aaaabbbbcccc, so " +
				"it may not hold. run it again: transportbench calibrate"},
		{"calibration of another version", nil,
			withCalibration(func(f *calibration.Found) { f.Document.Tool.Version = "1.0.0" }),
			"calibration", Warn, "measured with version 1.0.0, and this is 1.2.3"},
		{"library by LD_LIBRARY_PATH", files{"opt/ucx/lib/libucp.so.0": ""},
			func(x *examiner) { x.loaderPath = "relative:/opt/ucx/lib" }, "libucp", OK,
			"/opt/ucx/lib/libucp.so.0"},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			x := examinerOf(t, test.changes)
			if test.kernel != nil {
				test.kernel(x)
			}
			findings := x.examine(t.Context())
			requireWellFormed(t, findings)
			for _, f := range findings {
				if f.Name == test.name {
					require.Equal(t, test.status, f.Status, "%+v", f)
					require.Contains(t, f.Value+" "+f.Meaning+" "+f.Remedy, test.want)
					return
				}
			}
			t.Fatalf("no finding %q", test.name)
		})
	}
}

// On a machine that reveals nothing, findings say so.
func TestBareRoot(t *testing.T) {
	x := examinerOf(t, nil)
	x.root = machine.Root(t.TempDir())
	findings := x.examine(t.Context())
	requireWellFormed(t, findings)
	require.Len(t, findings, 24)
	for _, f := range findings {
		switch f.Name {
		case "load", "governor", "turbo", "smt", "numa", "aslr", "huge-pages",
			"transparent-huge-pages", "locked-memory":
			require.Equal(t, "not visible", f.Value, f.Name)
			require.Equal(t, Note, f.Status, f.Name)
		}
	}
}

func TestExamineThisMachine(t *testing.T) {
	findings := Examine(t.Context())
	requireWellFormed(t, findings)
	require.GreaterOrEqual(t, len(findings), 24)
}

func TestExamineEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	x := examinerOf(t, nil)
	x.clock = func() (string, string) { cancel(); return "tsc", "" }
	findings := x.examine(ctx)
	require.Equal(t, "clock", findings[len(findings)-1].Name)
	cancel()
	require.Empty(t, Examine(ctx))
}
