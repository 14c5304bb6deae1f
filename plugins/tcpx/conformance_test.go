package tcpx

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
	"transportbench/plugins/tcpx/internal/conn"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(Driver{})}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// closeSockets closes the sockets of a rank without a farewell, as the kernel does when a process
// dies.
func closeSockets(t transport.Transport) {
	_ = t.(*endpoint).workers.Close(func(workers []*worker) error {
		for _, w := range workers {
			for _, p := range w.peers.ByID {
				p.conn.Fail(conn.ErrFarewell) // so that none is sent
				_ = p.conn.Close()
			}
			_, _ = w.Close(), w.destroy()
		}
		return nil
	})
}

func TestConformance(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"default": {},
		"striped": {"sockets": "4", "chunk": "32KiB", "request": "64KiB",
			"striping": "least-loaded", "unpack-workers": "1"},
		"threads": {"sockets": "3", "threads": "2", "chunk": "64KiB", "unpack-workers": "1",
			"unpack-launch": "sync"},
		"tiny": {"sockets": "2", "chunk": "16KiB", "send-window": "1", "receive-window": "1"},
		"zero": {"zero-copy": "on", "chunk": "64KiB"},
	} {
		if fabrictest.Race && name != "default" && name != "threads" {
			continue // they share nothing between threads that these two do not
		}
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: options,
				Kill: closeSockets, Timeout: time.Minute})
		})
	}
}
