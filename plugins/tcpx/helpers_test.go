package tcpx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/plugins/tcpx/internal/bounce"
)

// eventually calls step until done.
func eventually(tb testing.TB, what string, step func() bool) {
	tb.Helper()
	for start := time.Now(); !step(); {
		if time.Since(start) > 30*time.Second {
			require.FailNow(tb, "timeout", "waiting for %s", what)
		}
	}
}

// requireAllPages takes all pages of bounce memory in the host, which must be free.
func requireAllPages(tb testing.TB, memory bounce.Allocator, s *settings) {
	tb.Helper()
	pages := (requests + s.peers) * s.request / pageSize
	require.False(tb, memory.Reserve(pages+1, false))
	require.True(tb, memory.Reserve(pages, false), "pages are still reserved")
}
