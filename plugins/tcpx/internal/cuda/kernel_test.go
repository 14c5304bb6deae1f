package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/cuda/ptxtest"
)

func TestBlocks(t *testing.T) {
	for count, blocks := range map[int]int{1: 1, 8: 1, 9: 2, 16: 2, 17: 3, 2048: 256} {
		require.Equal(t, blocks, Blocks(count), count)
	}
}

func TestKernelIsWhatTheHostTakesItFor(t *testing.T) {
	k, err := ptxtest.Parse(kernel)
	require.NoError(t, err)
	require.Equal(t, Entry, k.Name)
	require.Equal(t, Block, k.Threads)
	require.Contains(t, kernel, "\n.version 6.0\n.target sm_70\n.address_size 64\n",
		"accepted by old drivers")
	require.Regexp(t,
		`\(\s+\.param \.u64 descriptors,\s+\.param \.u32 count,\s+\.param \.u64 source,\s+\.param \.u64 destination\s+\)`, kernel,
		"the parameters that Launch passes, in order")
}

// card is the memory of a GPU, with areas for the descriptors, the source and the
// destination. It reports accesses that would fault on a GPU.
type card struct {
	memory  []byte
	written []byte      // by byte: how often
	widths  map[int]int // loads from the source, by width
}

const (
	base          = 1 << 40
	descriptorsAt = 0
	sourceAt      = 256 << 10
	destinationAt = 512 << 10
	cardSize      = 2 << 20
	// far is part of all destinations, so that they need more than 32 bits.
	far = 5 << 32
)

func (c *card) place(address uint64, n, from, to int) (int, error) {
	if address%uint64(n) != 0 {
		return 0, fmt.Errorf("%d bytes at %#x, which is misaligned", n, address)
	}
	at := address - base
	if at < uint64(from) || at+uint64(n) > uint64(to) {
		return 0, fmt.Errorf("%d bytes at offset %#x, which is not there", n, at)
	}
	return int(at), nil
}

func (c *card) Load(address uint64, into []byte) error {
	at, err := c.place(address, len(into), descriptorsAt, destinationAt)
	if err != nil {
		return err
	}
	copy(into, c.memory[at:])
	if at >= sourceAt {
		c.widths[len(into)]++
	}
	return nil
}

func (c *card) Store(address uint64, from []byte) error {
	at, err := c.place(address, len(from), destinationAt, cardSize)
	if err != nil {
		return err
	}
	copy(c.memory[at:], from)
	for i := range from {
		c.written[at+i]++
	}
	return nil
}

// unpack runs a kernel over a piece of each length and each pair of alignments, and returns
// what is wrong with the result. More descriptors follow those that the kernel may use.
func unpack(text string, lengths []uint32, alignments []int) error {
	k, err := ptxtest.Parse(text)
	if err != nil {
		return err
	}
	c := &card{memory: make([]byte, cardSize), written: make([]byte, cardSize),
		widths: map[int]int{}}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(c.memory) // never returns an error
	want := bytes.Clone(c.memory)
	times, widths := make([]byte, cardSize), map[int]int{}
	var list []byte
	count, to := 0, 16
	for _, length := range lengths {
		for _, from := range alignments {
			for _, align := range alignments {
				source := (count*7919%(200<<10))&^15 + from
				destination := to + align
				list = binary.LittleEndian.AppendUint32(list, uint32(source))
				list = binary.LittleEndian.AppendUint32(list, length)
				list = binary.LittleEndian.AppendUint64(list, far+uint64(destination))
				copy(want[destinationAt+destination:], want[sourceAt+source:][:length])
				for i := range length {
					times[destinationAt+destination+int(i)]++
				}
				width := 16
				for (from|align)%width != 0 {
					width /= 2
				}
				if whole := int(length) / width; whole > 0 {
					widths[width] += whole
				}
				if rest := int(length) % width; rest > 0 {
					widths[1] += rest
				}
				to = (destination + int(length) + 31) &^ 15 // with a gap
				count++
			}
		}
	}
	copy(want, list)
	copy(want[len(list):], bytes.Repeat([]byte{1, 0, 0, 0}, 64)) // one byte from 1 to 0x100000001
	copy(c.memory, want[:sourceAt])
	if err := k.Run(Blocks(count), []uint64{base, uint64(count), base + sourceAt,
		base + destinationAt - far}, c); err != nil {
		return err
	}
	switch {
	case !bytes.Equal(times, c.written):
		return errors.New("a byte is not written once")
	case !bytes.Equal(want, c.memory):
		return errors.New("a byte is wrong")
	case !maps.Equal(widths, c.widths):
		return fmt.Errorf("loads by their width are %v, and the widest are %v", c.widths, widths)
	}
	return nil
}

func sixteen() (all []int) {
	for i := range 16 {
		all = append(all, i)
	}
	return all
}

// TestKernelUnpacks interprets the kernel's text, thread by thread.
func TestKernelUnpacks(t *testing.T) {
	require.NoError(t, unpack(kernel, []uint32{0, 1, 2, 15, 16, 17, 31, 32, 33, 511, 512, 513,
		1100}, sixteen()))
	require.NoError(t, unpack(kernel, []uint32{4095, 4096, 4097}, []int{0, 1, 4, 6, 8}))
}

// TestWrongKernelsAreDetected changes each constant of the code, one at a time and both ways,
// and each width. Every such kernel must fail.
func TestWrongKernelsAreDetected(t *testing.T) {
	_, code, found := strings.Cut(kernel, ".reg .b64")
	require.True(t, found)
	offset := len(kernel) - len(code)
	wrong := map[string]string{}
	change := func(pattern string, to func(string) []string) (n int) {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatchIndex(code, -1) {
			from, end := offset+m[2], offset+m[3]
			line := strings.Count(kernel[:from], "\n") + 1
			for _, text := range to(kernel[from:end]) {
				wrong[fmt.Sprintf("line %d: %s for %s", line, text, kernel[from:end])] =
					kernel[:from] + text + kernel[end:]
				n++
			}
		}
		return n
	}
	constants := change(`(?m)[ +](-?\d+)[;\]]`, func(s string) []string {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return []string{strconv.Itoa(n + 1), strconv.Itoa(n - 1)}
	})
	require.Equal(t, 2*26, constants, "constants of the code")
	widths := map[string]string{"v2.u32": "v2.u16", "v4.u32": "v4.u16", "u64": "u32", "u32": "u16",
		"u16": "u8", "u8": "u16"}
	require.Equal(t, 12, change(`(?:ld|st)\.global\.(\S+)`,
		func(s string) []string { return []string{widths[s]} }))
	require.Equal(t, 6, change(`setp\.(ge)\.`, func(string) []string { return []string{"eq"} }))
	for name, text := range wrong {
		err := unpack(text, []uint32{1, 17, 33, 47, 1100}, []int{0, 1, 2, 4, 8})
		require.Error(t, err, name)
	}
}
