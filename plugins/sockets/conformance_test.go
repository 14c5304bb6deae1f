package sockets

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// kill closes the sockets of a rank, as the kernel does when a process dies.
func kill(t transport.Transport) {
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
		// Small socket buffers take large messages in parts.
		"small": {"socket-buffer": "4KiB"},

		"uring tcp":   {"engine": "uring"},
		"uring unix":  {"engine": "uring", "network": "unix"},
		"uring small": {"engine": "uring", "socket-buffer": "4KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: options, Kill: kill, Timeout: time.Minute})
		})
	}
}
