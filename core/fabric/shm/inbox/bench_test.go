package inbox

import (
	"fmt"
	"testing"

	"transportbench/core/fabric/fabrictest"
)

// BenchmarkPath moves calls and replies through both workers on one thread: of 48 bytes, which fit
// into a line, and of 64.
func BenchmarkPath(b *testing.B) {
	eachPath(b, func(b *testing.B, p fabrictest.Path) { p.Benchmark(b, testDriver{}) })
}

// BenchmarkInstructions counts the instructions of BenchmarkPath.
func BenchmarkInstructions(b *testing.B) {
	eachPath(b, func(b *testing.B, p fabrictest.Path) { p.Instructions(b) })
}

func eachPath(b *testing.B, run func(*testing.B, fabrictest.Path)) {
	for _, name := range Rings()[1:] {
		for _, batch := range []int{1, 32} {
			for _, size := range []int{48, 64} {
				b.Run(fmt.Sprintf("ring=%s/batch=%d/bytes=%d", name, batch, size),
					func(b *testing.B) {
						run(b, fabrictest.Path{Options: map[string]string{"ring": name},
							Batch: batch, Bytes: size})
					})
			}
		}
	}
}
