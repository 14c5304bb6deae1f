package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeFile(t *testing.T, root Root, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
	require.NoError(t, os.WriteFile(root.Path(path), []byte(text), 0o644))
}

func TestCPUTimes(t *testing.T) {
	root := Root(t.TempDir())
	require.Zero(t, root.CPUTimes([]int{0}), "no /proc/stat")
	writeFile(t, root, "proc/stat", `cpu  30 0 300 0 0 3 30 300 0 0
cpu0 10 0 100 0 0 1 10 100 0 0
cpu1 10 0 100 0 0 1 10 100 0 0
cpu2 10 0 100 0 0 1 10 100 0 0
intr 1 2
ctxt 1
btime 1700000000
`)
	before := root.CPUTimes([]int{0, 2})
	require.Equal(t, CPUTimes{KernelNS: 2_220e6, SoftIRQNS: 200e6, StealNS: 2000e6}, before)
	writeFile(t, root, "proc/stat", `cpu  30 0 300 0 0 3 30 300 0 0
cpu0 10 0 150 0 0 1 30 101 0 0
cpu1 10 0 900 0 0 1 90 900 0 0
cpu2 10 0 100 0 0 1 10 103 0 0
`)
	require.Equal(t, CPUTimes{KernelNS: 700e6, SoftIRQNS: 200e6, StealNS: 40e6},
		root.CPUTimes([]int{0, 2}).Sub(before))
	require.Zero(t, CPUTimes{}.Sub(before), "a processor went offline")
}

func TestFrequencyRatio(t *testing.T) {
	root := Root(t.TempDir())
	require.Zero(t, root.FrequencyRatio([]int{0}))
	require.Zero(t, root.FrequencyRatio(nil))
	for cpu, current := range map[string]string{"0": "3000000", "1": "1000000"} {
		writeFile(t, root, "sys/devices/system/cpu/cpu"+cpu+"/cpufreq/scaling_cur_freq",
			current+"\n")
	}
	require.Zero(t, root.FrequencyRatio([]int{0, 1}), "no nominal frequency")
	writeFile(t, root, "sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "2000000\n")
	writeFile(t, root, "sys/devices/system/cpu/cpu1/acpi_cppc/nominal_freq", "2000\n")
	require.InDelta(t, 1.0, root.FrequencyRatio([]int{0, 1}), 1e-9)
	require.InDelta(t, 1.5, root.FrequencyRatio([]int{0}), 1e-9)
}
