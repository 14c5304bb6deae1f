package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAgainstSlice compares a queue with a slice.
func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New[int](rapid.IntRange(1, 9).Draw(t, "size"))
		var model []int
		pushed := 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if !q.Full() && rapid.Bool().Draw(t, "push") {
				*q.Push() = pushed
				model = append(model, pushed)
				pushed++
			} else if !q.Empty() {
				require.Equal(t, model[0], *q.Head())
				q.Pop()
				model = model[1:]
			}
			require.Equal(t, len(model), q.Len())
			require.Equal(t, len(model) == 0, q.Empty())
			require.Equal(t, len(model) == q.Cap(), q.Full())
			require.Equal(t, uint64(pushed), q.Last())
			for i := range model {
				require.Equal(t, model[i], *q.At(q.First() + uint64(i)))
			}
		}
	})
}
