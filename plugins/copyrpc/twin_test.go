package copyrpc

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

var twinNumbers = [][2]uint64{{0, 1}, {1<<63 | 29, 30}, {29, 1<<63 | 30}, {0xff, 0x100}, {0x1ff, 0x200}, {1<<32 - 1, 1 << 32}, {7, 1<<56 | 8}}

func twinBytes(n uint64) (b [twinSize]byte) {
	binary.LittleEndian.PutUint64(b[:], n)
	binary.LittleEndian.PutUint64(b[8:], n)
	return b
}

// TestTwinWrittenByDevice: of a number that a device writes byte by byte, no part is taken
// for the whole, however much is written between the looks at its halves.
func TestTwinWrittenByDevice(t *testing.T) {
	for _, numbers := range twinNumbers {
		before, after := twinBytes(numbers[0]), twinBytes(numbers[1])
		for early := range twinSize + 1 {
			second := binary.LittleEndian.Uint64(append(after[:early:early], before[early:]...)[8:])
			for late := early; late <= twinSize; late++ {
				first := binary.LittleEndian.Uint64(append(after[:late:late], before[late:]...))
				if first == second {
					require.Contains(t, numbers, first, "%d bytes written, then %d", early, late)
				}
			}
		}
	}
}

// TestTwinReadByDevice: a device that reads a number byte by byte while it changes makes a
// copy of the old or the new one, or one that is not whole.
func TestTwinReadByDevice(t *testing.T) {
	for _, numbers := range twinNumbers {
		memory := make([]byte, twinSize)
		source := twinAt(memory, 0)
		for secondAt := range twinSize + 1 { // bytes read when store changes one half, then the other
			for firstAt := secondAt; firstAt <= twinSize; firstAt++ {
				source.store(numbers[0])
				copied := make([]byte, twinSize)
				for i := range copied {
					if i == secondAt {
						source.second.Store(numbers[1])
					}
					if i == firstAt {
						source.first.Store(numbers[1])
					}
					copied[i] = memory[i]
				}
				if n, whole := twinAt(copied, 0).load(); whole {
					require.Contains(t, numbers, n, "changed after %d and %d bytes", secondAt, firstAt)
				}
			}
		}
	}
}

func TestTwin(t *testing.T) {
	w := twinAt(make([]byte, 2*twinSize), twinSize)
	w.store(42)
	n, whole := w.load()
	require.EqualValues(t, 42, n)
	require.True(t, whole)
	w.first.Store(43)
	_, whole = w.load()
	require.False(t, whole)
}
