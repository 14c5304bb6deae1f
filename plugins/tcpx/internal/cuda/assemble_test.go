package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// targets are the GPUs that the kernel is assembled for: the oldest, and the later data
// center generations.
var targets = []string{"sm_70", "sm_80", "sm_90", "sm_100"}

// maxRegisters is the limit per thread for full occupancy of a multiprocessor: 65536
// registers for 2048 threads.
const maxRegisters = 32

// tool returns the path of a program of NVIDIA's toolkit, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("the kernel goes unassembled: %v; docs/transports/tcpx-gpu.md says where it is "+
			"to be had", err)
	}
	return path
}

// assemble assembles the kernel, and skips the test if the assembler is older than the target.
func assemble(t *testing.T, target string) (file, report string) {
	t.Helper()
	ptxas := tool(t, "ptxas")
	known, err := exec.Command(ptxas, "--help").CombinedOutput()
	require.NoError(t, err)
	if !strings.Contains(string(known), "'"+target+"'") {
		t.Skipf("this ptxas does not know %s", target)
	}
	directory := t.TempDir()
	source := filepath.Join(directory, "unpack.ptx")
	file = filepath.Join(directory, "unpack.cubin")
	require.NoError(t, os.WriteFile(source, []byte(kernel), 0o600))
	output, err := exec.Command(ptxas, "--warning-as-error", "--verbose", "--output-file", file,
		"--gpu-name", target, source).CombinedOutput()
	require.NoError(t, err, string(output))
	return file, string(output)
}

// TestKernelAssembles: the kernel assembles without warnings or spills, and with few enough
// registers for full occupancy.
func TestKernelAssembles(t *testing.T) {
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			_, report := assemble(t, target)
			require.Contains(t, report,
				"0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads")
			used := regexp.MustCompile(`Used (\d+) registers`).FindStringSubmatch(report)
			require.NotNil(t, used, report)
			n, err := strconv.Atoi(used[1])
			require.NoError(t, err)
			require.LessOrEqual(t, n, maxRegisters)
		})
	}
}

// TestMachineCode: each loop still has one load and one store of its width, and its step.
func TestMachineCode(t *testing.T) {
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			nvdisasm := tool(t, "nvdisasm")
			file, _ := assemble(t, target)
			output, err := exec.Command(nvdisasm, "--print-code", file).CombinedOutput()
			require.NoError(t, err, string(output))
			code := string(output)
			for width, suffix := range map[int]string{16: `\.128`, 8: `\.64`, 4: ``, 2: `\.U16`,
				1: `\.U8`} {
				loop := regexp.MustCompile(`LDG\.E` + suffix +
					`(?:\.SYS|\.CONSTANT)? R\d+, [^;]*R\d+[^;]*;(?:[^;]*;){1,12}?[^;]*BRA `)
				step := regexp.MustCompile(`IADD3 R\d+, R\d+, 0x` +
					strconv.FormatInt(int64(Warp*width), 16) + `, RZ`)
				store := regexp.MustCompile(`STG\.E` + suffix + `(?:\.SYS)? `)
				found := 0
				for _, body := range loop.FindAllString(code, -1) {
					if step.MatchString(body) && len(store.FindAllString(body, -1)) == 1 &&
						strings.Count(body, "LDG") == 1 {
						found++
					}
				}
				require.Equal(t, 1, found, "loops of %d bytes per thread", width)
			}
		})
	}
}
