package workload

import (
	"fmt"
	"testing"

	"transportbench/core/base/config"
)

func BenchmarkNext(b *testing.B) {
	for _, distribution := range config.Distributions() {
		for _, keys := range []int{1000, 1024, 1 << 20, 1 << 30} {
			b.Run(fmt.Sprintf("%s/keys=%d", distribution, keys), func(b *testing.B) {
				cfg := config.Default()
				cfg.Distribution, cfg.Keys = distribution, keys
				g := New(cfg, 0)
				b.ReportAllocs()
				var r Request
				for b.Loop() {
					if g.Next(&r); r.Key >= uint64(keys*cfg.Ranks) {
						b.Fatalf("key %d is not one of the %d", r.Key, keys*cfg.Ranks)
					}
				}
			})
		}
	}
}

func BenchmarkNextSize(b *testing.B) {
	for _, text := range []string{"32", "uniform:64-4KiB", "histogram:64=9,1KiB=3,4KiB=1"} {
		b.Run(text, func(b *testing.B) {
			cfg := config.Default()
			if err := cfg.ValueSize.Set(text); err != nil {
				b.Fatal(err)
			}
			g := New(cfg, 0)
			var r Request
			for b.Loop() {
				g.Next(&r)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	cfg := config.Default()
	cfg.Distribution, cfg.Keys = config.DistributionZipfian, config.MaxKeys
	for b.Loop() {
		New(cfg, 0)
	}
}

func BenchmarkRandom(b *testing.B) {
	r := newRandom(1, 0)
	var sum uint64
	for range b.N { // not b.Loop, which would keep the state in memory
		sum += r.next()
	}
	if sum == 0 {
		b.Log("a sum of draws that happens to be 0") // keeps the loop
	}
}
