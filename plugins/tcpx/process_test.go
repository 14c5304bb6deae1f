package tcpx

import (
	"testing"

	"transportbench/core/fabric/fabrictest"

	"github.com/stretchr/testify/require"
)

// TestKilledProcess kills a peer in the middle of large transfers: Poll reports the loss, and
// all pages and sockets are released.
func TestKilledProcess(t *testing.T) {
	for _, c := range []struct{ sockets, threads string }{{"1", "0"}, {"3", "0"}, {"3", "2"}} {
		t.Run(c.sockets+" "+c.threads, func(t *testing.T) {
			tr, opened, _ := fabrictest.Kill(t, Driver{},
				map[string]string{"sockets": c.sockets, "threads": c.threads}, 4<<20)
			defer tr.Close()
			w := opened.(*worker)
			eventually(t, "helpers to let go",
				func() bool { w.releaseLost(); return len(w.releasing) == 0 })
			requireAllPages(t, w.memory, w.settings)
			for i, fd := range w.peers.Get(0).conn.Sockets() {
				require.Equal(t, -1, fd, "socket %d", i)
			}
		})
	}
}
