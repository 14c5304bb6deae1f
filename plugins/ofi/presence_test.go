package ofi

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// TestPresenceAmongStrangers: a peer connects while strangers hold connections and the queue is
// full, and sees the end of the presence. Strangers that say nothing, guess, or repeat a hello are
// dropped.
func TestPresenceAmongStrangers(t *testing.T) {
	const nonce = 0x0123456789abcdef
	for name, at := range map[string]netip.Addr{"unix": {},
		"tcp": netip.MustParseAddr("127.0.0.1")} {
		t.Run(name, func(t *testing.T) {
			p, err := newPresence(at, nonce, 2, time.Minute)
			require.NoError(t, err)
			defer func() { require.NoError(t, p.close()) }()
			var to unix.Sockaddr = &unix.SockaddrUnix{Name: p.address}
			if at.IsValid() {
				to = sock.ToKernel(netip.MustParseAddrPort(p.address))
			}
			options := sock.Options{Timeout: time.Minute}
			stranger := func(said func(own unix.Sockaddr) []byte) int {
				fd, err := options.DialTo(to)
				for ; errors.Is(err, unix.EAGAIN); fd, err = options.DialTo(to) {
					time.Sleep(time.Millisecond)
				}
				require.NoError(t, err)
				t.Cleanup(func() { _ = unix.Close(fd) })
				if said != nil {
					own, err := unix.Getsockname(fd)
					require.NoError(t, err)
					require.Eventually(t, func() bool { ok, _ := sock.Established(fd); return ok },
						time.Minute, time.Millisecond)
					_, err = sock.SendBytes(fd, said(own))
					require.NoError(t, err)
				}
				return fd
			}
			dropped := func(fd int) {
				t.Helper()
				require.Eventually(t, func() bool { return sock.Peek(fd) != nil }, time.Minute,
					time.Millisecond)
			}
			first := stranger(nil)
			for range 300 {
				stranger(nil)
			}
			dropped(first)
			for bit := range 64 {
				dropped(
					stranger(func(own unix.Sockaddr) []byte { return hello(nonce^1<<bit, own) }))
			}
			peer, err := dialPresence(t.Context(), p.address, nonce, time.Minute)
			require.NoError(t, err)
			defer unix.Close(peer)
			if at.IsValid() {
				recorded, err := unix.Getsockname(peer)
				require.NoError(t, err)
				dropped(stranger(func(unix.Sockaddr) []byte { return hello(nonce, recorded) }))
			}
			require.NoError(t, sock.Peek(peer))
			require.NoError(t, p.close())
			dropped(peer)
		})
	}
}
