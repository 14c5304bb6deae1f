package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// code is the kernel without comments, a line each, spaces as one.
func code() []string {
	var lines []string
	for line := range strings.Lines(kernel) {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestKernelIsWhatTheHostTakesItFor(t *testing.T) {
	text := strings.Join(code(), "\n")
	require.True(t, strings.HasPrefix(text, ".version 6.0\n.target sm_70\n.address_size 64\n"))
	require.Contains(t, text, fmt.Sprintf(".visible .entry %s(\n.param .u64 descriptors,\n.param .u32 count,\n.param .u64 source,\n.param .u64 destination\n)\n.reqntid %d, 1, 1\n",
		Entry, Block), "the parameters that Launch passes, in order")

	warps := 1 << number(t, text, `shl\.b32 %r2, %r0, (\d+);`)
	require.Equal(t, Block/Warp, warps, "descriptors of a block")
	require.Equal(t, Warp, 1<<number(t, text, `shr\.u32 %r3, %r1, (\d+);`), "threads of a warp")
	require.Equal(t, Warp-1, number(t, text, `and\.b32 %r1, %r1, (\d+);`), "the lane's bits")
	require.Equal(t, DescriptorSize, number(t, text, `mul\.wide\.u32 %a1, %r2, (\d+);`))
	require.Contains(t, text, "ld.global.v2.u32 {%r5, %r6}, [%a0];\nld.global.u64 %a2, [%a0+8];", "the descriptor's fields")

	for _, width := range []int{16, 8, 4, 2} {
		loop := section(t, text, fmt.Sprintf("WIDE%d:", width), "bra LOOP"+strconv.Itoa(width)+";")
		require.Equal(t, width, number(t, loop, `and\.b32 %r10, %r6, -(\d+);`), "the part that goes at this width")
		require.Equal(t, width, 1<<number(t, loop, `shl\.b32 %r9, %r1, (\d+);`), "a lane's place")
		require.Equal(t, Warp*width, number(t, loop, `add\.u32 %r9, %r9, (\d+);`), "what the warp moves in a turn")
		require.Equal(t, width, bytesOf(t, loop, "ld"))
		require.Equal(t, width, bytesOf(t, loop, "st"))
		require.Contains(t, text, fmt.Sprintf("and.b32 %%r8, %%r7, %d;\nsetp.eq.u32 %%p0, %%r8, 0;\n@%%p0 bra WIDE%d;", width-1, width))
	}
	tail := section(t, text, "TAIL:", "bra BYTES;")
	require.Equal(t, Warp, number(t, tail, `add\.u32 %r9, %r9, (\d+);`))
	require.Equal(t, 1, bytesOf(t, tail, "ld"))
	require.Equal(t, 1, bytesOf(t, tail, "st"))
}

func number(t *testing.T, text, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1, pattern)
	n, err := strconv.Atoi(found[0][1])
	require.NoError(t, err)
	return n
}

func section(t *testing.T, text, from, to string) string {
	t.Helper()
	_, text, found := strings.Cut(text, from)
	require.True(t, found, from)
	text, _, found = strings.Cut(text, to)
	require.True(t, found, to)
	return text
}

// bytesOf returns how much the only global load or store of a loop moves.
func bytesOf(t *testing.T, text, kind string) int {
	t.Helper()
	found := regexp.MustCompile(kind+`\.global(\.v[24])?\.u(\d+) `).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1, kind)
	bits, err := strconv.Atoi(found[0][2])
	require.NoError(t, err)
	if vector := found[0][1]; vector != "" {
		bits *= int(vector[2] - '0')
	}
	return bits / 8
}

// TestKernelNamesWhatItHas: every label that is branched to, and every register, is
// declared. It finds the slips of the hand, not all that an assembler would.
func TestKernelNamesWhatItHas(t *testing.T) {
	declared := map[string]int{}
	labels, reached := map[string]bool{}, map[string]bool{}
	for _, line := range code() {
		if reg := regexp.MustCompile(`^\.reg \.\w+ (%\w)<(\d+)>;$`).FindStringSubmatch(line); reg != nil {
			n, err := strconv.Atoi(reg[2])
			require.NoError(t, err)
			declared[reg[1]] = n
			continue
		}
		if label, found := strings.CutSuffix(line, ":"); found {
			require.False(t, labels[label], "label %s twice", label)
			labels[label] = true
			continue
		}
		if target := regexp.MustCompile(`\bbra (\w+);$`).FindStringSubmatch(line); target != nil {
			reached[target[1]] = true
		}
		for _, use := range regexp.MustCompile(`(%[pra])(\d+)\b`).FindAllStringSubmatch(line, -1) {
			n, err := strconv.Atoi(use[2])
			require.NoError(t, err)
			require.Less(t, n, declared[use[1]], "%s in %q", use[0], line)
		}
		if !strings.HasPrefix(line, ".") && !strings.ContainsAny(line[:1], "{})") {
			require.True(t, strings.HasSuffix(line, ";"), line)
		}
	}
	for label := range reached {
		require.True(t, labels[label], "no label %s", label)
	}
}

func TestKernelAssembles(t *testing.T) {
	ptxas, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skipf("the kernel goes unassembled: %v; it is in NVIDIA's CUDA toolkit", err)
	}
	file := filepath.Join(t.TempDir(), "unpack.ptx")
	require.NoError(t, os.WriteFile(file, []byte(kernel), 0o600))
	output, err := exec.Command(ptxas, "--warning-as-error", "--output-file", os.DevNull, "--gpu-name", "sm_70", file).CombinedOutput()
	require.NoError(t, err, string(output))
}

func TestBlocks(t *testing.T) {
	for count, blocks := range map[int]int{1: 1, 8: 1, 9: 2, 16: 2, 17: 3, 2048: 256} {
		require.Equal(t, blocks, Blocks(count), count)
	}
}
