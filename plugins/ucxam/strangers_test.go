package ucxam

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
)

// listeners returns how many TCP sockets of this process listen.
func listeners(t *testing.T) (count int) {
	t.Helper()
	own := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, _ := os.ReadFile(table) // there may be no IPv6
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && own[f[9]] {
				count++
			}
		}
	}
	return count
}

// TestNoPortWithoutTCP: on one machine, ranks that have not asked for TCP open no port to
// strangers.
func TestNoPortWithoutTCP(t *testing.T) {
	before := listeners(t)
	tr, _, err := openWith(t, nil)
	require.NoError(t, err)
	require.Contains(t, []string{"posix", "sysv"}, tr.Properties().Provider)
	require.Equal(t, before, listeners(t))
	_, _, err = openWith(t, map[string]string{optionTLS: "tcp"})
	require.NoError(t, err)
	require.Greater(t, listeners(t), before)
}

// TestBytesWhileOpening: UCX makes workers while strangers connect to their ports and send a byte.
func TestBytesWhileOpening(t *testing.T) {
	needUCX(t)
	const ports = 8
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	first := free.Addr().(*net.TCPAddr).Port - ports
	require.NoError(t, free.Close())
	done := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(done)
	for port := range ports {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", first+port))
				if err != nil {
					time.Sleep(10 * time.Microsecond)
					continue
				}
				_, _ = c.Write([]byte("?"))
				_ = c.Close()
			}
		})
	}
	same := map[string]string{optionTLS: "tcp", optionDevices: "lo",
		optionVariables: fmt.Sprintf("UCX_TCP_PORT_RANGE=%d-%d", first, first+ports-1)}
	for range 100 {
		tr, _, err := open(fabrictest.Rank{Options: same})
		require.NoError(t, err)
		require.NoError(t, tr.Close())
	}
}
