package copyrpc

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

var doubleWordNumbers = [][2]uint64{{0, 1}, {1<<63 | 29, 30}, {29, 1<<63 | 30}, {0xff, 0x100},
	{0x1ff, 0x200}, {1<<32 - 1, 1 << 32}, {7, 1<<56 | 8}}

func doubleWordBytes(n uint64) (b [doubleWordSize]byte) {
	binary.LittleEndian.PutUint64(b[:], n)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b
}

// TestDoubleWordWrittenByDevice checks that load never returns a part of a number that a
// device writes byte by byte, however many bytes it writes between the two loads.
func TestDoubleWordWrittenByDevice(t *testing.T) {
	for _, numbers := range doubleWordNumbers {
		before, after := doubleWordBytes(numbers[0]), doubleWordBytes(numbers[1])
		for early := range doubleWordSize + 1 {
			second := binary.LittleEndian.Uint64(append(after[:early:early], before[early:]...)[8:])
			for late := early; late <= doubleWordSize; late++ {
				first := binary.LittleEndian.Uint64(append(after[:late:late], before[late:]...))
				if first == second {
					require.Contains(t, numbers, first, "%d bytes written, then %d", early, late)
				}
			}
		}
	}
}

// TestDoubleWordReadByDevice checks that a device that reads a number byte by byte while
// it changes copies the old number, the new one, or one that load rejects.
func TestDoubleWordReadByDevice(t *testing.T) {
	for _, numbers := range doubleWordNumbers {
		memory := make([]byte, doubleWordSize)
		word := doubleWordAt(memory, 0)
		// bytes copied when store changes second, then first
		for secondAt := range doubleWordSize + 1 {
			for firstAt := secondAt; firstAt <= doubleWordSize; firstAt++ {
				word.store(numbers[0])
				copied := make([]byte, doubleWordSize)
				for i := range copied {
					if i == secondAt {
						word.second.Store(numbers[1])
					}
					if i == firstAt {
						word.first.Store(numbers[1])
					}
					copied[i] = memory[i]
				}
				if n, whole := doubleWordAt(copied, 0).load(); whole {
					require.Contains(t, numbers, n, "changed after %d and %d bytes",
						secondAt, firstAt)
				}
			}
		}
	}
}

func TestDoubleWord(t *testing.T) {
	w := doubleWordAt(make([]byte, 2*doubleWordSize), doubleWordSize)
	w.store(42)
	n, whole := w.load()
	require.EqualValues(t, 42, n)
	require.True(t, whole)
	w.first.Store(43)
	_, whole = w.load()
	require.False(t, whole)
}
