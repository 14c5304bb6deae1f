package devmem

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// xarray is the kernel's side of a socket: the tokens that are in use.
type xarray struct {
	t     rapid.TB
	out   map[uint32]bool
	limit int // pieces that one call accepts
	calls int
}

func (x *xarray) dontNeed(_ int, ranges []TokenRange) (taken int, err error) {
	x.calls++
	if len(ranges) == 0 || len(ranges) > maxRanges {
		return 0, unix.EINVAL
	}
	asked := 0
	for _, r := range ranges {
		for i := range r.Count {
			asked++
			if taken == x.limit {
				continue
			}
			if x.out[r.Start+i] {
				delete(x.out, r.Start+i)
				taken++
			}
		}
	}
	if asked > maxFrags {
		x.t.Fatalf("%d pieces in one call", asked)
	}
	return taken, nil
}

// TestTokensComeBackOnce: all tokens are returned once, in any order and however few the kernel
// takes per call, and in no more calls than the limits require.
func TestTokensComeBackOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfNDistinct(rapid.Uint32Range(0, 4000), 0, 2500,
			rapid.ID[uint32]).Draw(t, "tokens")
		if rapid.Bool().Draw(t, "sorted") { // the usual order
			for i := range tokens {
				tokens[i] = uint32(i)
			}
		}
		x := &xarray{t: t, out: map[uint32]bool{},
			limit: rapid.SampledFrom([]int{maxFrags, 100, 3}).Draw(t, "limit")}
		for _, token := range tokens {
			x.out[token] = true
		}
		batch := NewTokens(0, x.dontNeed)
		for _, token := range tokens {
			require.NoError(t, batch.Add(token))
		}
		require.NoError(t, batch.Flush())
		require.Empty(t, x.out)
		if x.limit == maxFrags {
			require.LessOrEqual(t, x.calls, len(tokens)/maxRanges+1)
		}
	})
}

func TestTokensFollowingEachOtherAreOneRange(t *testing.T) {
	x := &xarray{t: t, out: map[uint32]bool{}, limit: maxFrags}
	batch := NewTokens(0, x.dontNeed)
	for token := range uint32(2 * maxFrags) {
		x.out[token] = true
		require.NoError(t, batch.Add(token))
	}
	require.Equal(t, 2, x.calls)
	require.Empty(t, x.out)
	batch.dontNeed = func(_ int, ranges []TokenRange) (int, error) { return len(ranges), nil }
	require.Zero(t, testing.AllocsPerRun(5, func() {
		for token := range uint32(100) {
			_ = batch.Add(3 * token)
		}
		_ = batch.Flush()
	}))
}

// TestLostTokens: a token that the kernel does not know is an error, and other tokens are still
// returned.
func TestLostTokens(t *testing.T) {
	x := &xarray{t: t, out: map[uint32]bool{1: true, 3: true}, limit: maxFrags}
	batch := NewTokens(0, x.dontNeed)
	for _, token := range []uint32{1, 2, 3} {
		require.NoError(t, batch.Add(token))
	}
	require.ErrorIs(t, batch.Flush(), ErrTokens)
	require.Empty(t, x.out)
	require.NoError(t, batch.Flush(), "they were dropped")

	failing := errors.New("broken")
	batch.dontNeed = func(int, []TokenRange) (int, error) { return 0, failing }
	require.NoError(t, batch.Add(1))
	require.ErrorIs(t, batch.Flush(), failing)
	batch.dontNeed = func(int, []TokenRange) (int, error) { return 5, nil }
	require.NoError(t, batch.Add(1))
	require.ErrorIs(t, batch.Flush(), ErrTokens, "more than were given")
}
