package kv

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOwnerIsEven(t *testing.T) {
	const keys = 100_000
	for _, daemons := range []int{1, 2, 3, 7, 64} {
		owned := make([]int, daemons)
		for key := range uint64(keys) {
			owned[DaemonOf(key, daemons)]++
		}
		mean := keys / daemons
		for _, n := range owned {
			require.InDelta(t, mean, n, 5*float64(mean)/30, "%d daemons: %v", daemons, owned)
		}
	}
}

func TestEveryRankOwnsOneKeyOfEachBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 1024).Draw(t, "ranks")
		block := rapid.Uint64Range(0, MaxKey/uint64(ranks)-1).Draw(t, "block")
		first := block * uint64(ranks)
		owned := make([]bool, ranks)
		for key := first; key < first+uint64(ranks); key++ {
			rank := RankOf(key, ranks)
			require.False(t, owned[rank], "rank %d owns two", rank)
			owned[rank] = true
			require.Equal(t, key, OnRank(key, rank, ranks))
		}
	})
}

func TestOnRankIsOwnedByTheRankAndOfTheSameBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 1024).Draw(t, "ranks")
		rank := rapid.IntRange(0, ranks-1).Draw(t, "rank")
		key := rapid.Uint64Range(0, MaxKey).Draw(t, "key")
		other := OnRank(key, rank, ranks)
		require.Equal(t, rank, RankOf(other, ranks))
		require.Equal(t, key/uint64(ranks), other/uint64(ranks))
		require.Equal(t, key, OnRank(other, RankOf(key, ranks), ranks), "and back")
	})
}

// TestRanksOwnNoStride checks that a rank's keys have every offset in their blocks about equally
// often, and that the owners of the first keys of consecutive blocks are independent.
func TestRanksOwnNoStride(t *testing.T) {
	const blocks = 40_000
	for _, ranks := range []int{2, 3, 8, 61} {
		offsets, steps := make([]int, ranks), make([]int, ranks)
		for block := range uint64(blocks) {
			key := OnRank(block*uint64(ranks), 0, ranks)
			offsets[key%uint64(ranks)]++
			next := RankOf((block+1)*uint64(ranks), ranks)
			steps[(next-RankOf(block*uint64(ranks), ranks)+ranks)%ranks]++
		}
		mean := float64(blocks) / float64(ranks)
		for i := range ranks {
			require.InDelta(t, mean, offsets[i], 0.25*mean, "%d ranks", ranks)
			require.InDelta(t, mean, steps[i], 0.25*mean, "%d ranks", ranks)
		}
	}
}

// TestDaemonsOfARankShareItsKeys checks that the two hashes are independent.
func TestDaemonsOfARankShareItsKeys(t *testing.T) {
	const keys, ranks, daemons = 120_000, 3, 4
	var owned [ranks][daemons]int
	for key := range uint64(keys) {
		owned[RankOf(key, ranks)][DaemonOf(key, daemons)]++
	}
	for rank := range owned {
		total := 0
		for _, n := range owned[rank] {
			require.InDelta(t, keys/ranks/daemons, n, 0.1*keys/ranks/daemons, "%v", owned)
			total += n
		}
		require.Equal(t, keys/ranks, total)
	}
}

func BenchmarkPlace(b *testing.B) {
	key, sum := uint64(0), uint64(0)
	for b.Loop() {
		sum += OnRank(key, RankOf(key, 8)^1, 8)
		key++
	}
	require.Positive(b, sum)
}
