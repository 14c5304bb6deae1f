package sockets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// shutSockets closes the sockets of a rank, as the kernel does when a process dies.
func shutSockets(t transport.Transport) {
	_ = t.(*endpoint).workers.Close(func(workers []*worker) error {
		for _, w := range workers {
			for _, p := range w.byIndex {
				if p.fd >= 0 {
					_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
				}
			}
			_, _ = w.Close(), w.destroy()
		}
		return nil
	})
}

func TestConformance(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"tcp":  {},
		"unix": {"network": "unix"},

		"uring tcp":  {"engine": "uring"},
		"uring unix": {"engine": "uring", "network": "unix"},
	} {
		if fabrictest.Race && name != "tcp" && name != "uring tcp" {
			continue // they share nothing between threads that these two do not
		}
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: options,
				Kill: shutSockets, Timeout: time.Minute})
		})
	}
}

// TestSmallBuffers runs the clauses about large and many messages with socket buffers that take
// them in parts.
func TestSmallBuffers(t *testing.T) {
	for _, engine := range engineNames() {
		transporttest.Properties(t, Driver{}, map[string]string{"engine": engine}) // or skip
		suite := transporttest.Suite{Driver: Driver{}, Kill: shutSockets, Timeout: time.Minute,
			Options: map[string]string{"engine": engine, "socket-buffer": "4KiB"}}
		for _, clause := range []string{"poll/size", "flow/back-pressure", "flow/wrap",
			"peers/lost-comes-last"} {
			failed, report, err := transporttest.RunClause(suite, clause)
			require.NoError(t, err)
			require.False(t, failed, "%s %s: %s", engine, clause, report)
		}
	}
}
