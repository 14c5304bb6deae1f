package kv

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var benchSizes = []int{32, 64 << 10}

func benchPerSize(b *testing.B, name string, run func(b *testing.B, size int)) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("%s/size=%d", name, size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			run(b, size)
		})
	}
}

func BenchmarkClient(b *testing.B) {
	b.Run("EncodeGet", func(b *testing.B) {
		dst, key := make([]byte, HeaderSize), uint64(0)
		for b.Loop() {
			EncodeGet(dst, key)
			key++
		}
	})
	benchPerSize(b, "EncodePut", func(b *testing.B, size int) {
		dst, key := make([]byte, HeaderSize+size), uint64(0)
		for b.Loop() {
			EncodePut(dst, key, size, key)
			key++
		}
	})
	for _, sum := range []bool{true, false} {
		benchPerSize(b, fmt.Sprintf("Check/sum=%t", sum), func(b *testing.B, size int) {
			s := filledStore(b, 1, size)
			var header [HeaderSize]byte
			response, _ := s.Serve(EncodeGet(make([]byte, HeaderSize), 0), &header)
			for b.Loop() {
				if _, f := Check(response, 0, 1, size, sum); f != FailureNone {
					b.Fatal(f)
				}
			}
		})
	}
}

func BenchmarkServe(b *testing.B) {
	const keys = 1024
	for _, op := range []string{"get", "put", "put-unverified"} {
		benchPerSize(b, op, func(b *testing.B, size int) {
			s := filledStore(b, keys, size)
			if op == "put-unverified" {
				s.VerifyEvery = 1 << 30
			}
			var header [HeaderSize]byte
			requests := make([][]byte, keys)
			for key := range requests {
				requests[key] = EncodeGet(make([]byte, HeaderSize), uint64(key))
				if op != "get" {
					requests[key] = EncodePut(make([]byte, HeaderSize+size), uint64(key), size, 1)
				}
			}
			i := uint64(0)
			for b.Loop() {
				// Not in order, as the processor would learn it.
				if _, outcome := s.Serve(requests[i*0x9e3779b97f4a7c15>>54],
					&header); outcome == OutcomeRejected {
					b.Fatal("rejected")
				}
				i++
			}
		})
	}
}

func BenchmarkOwner(b *testing.B) {
	key := uint64(0)
	for b.Loop() {
		owner := DaemonOf(key, 3)
		if owner < 0 || owner > 2 {
			b.Fatalf("key %d belongs to daemon %d of 3", key, owner)
		}
		key++
	}
}

func filledStore(tb testing.TB, keys, size int) *Store {
	tb.Helper()
	s, err := NewStore(keys, size)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	for key := range keys {
		require.NoError(tb, s.Fill(uint64(key), size))
	}
	return s
}
