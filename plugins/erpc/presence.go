package erpc

import (
	"crypto/rand"
	"encoding/hex"

	"golang.org/x/sys/unix"
)

// presence is a socket that the kernel closes with the process: as long as its name can be connected
// to, the worker that made it is open, whether its process runs or not. The name is in the abstract
// namespace, which the processes of a network namespace share. Nothing is sent.
type presence struct {
	fd   int
	name string
}

func newPresence() (presence, error) {
	fd, err := presenceSocket()
	if err != nil {
		return presence{}, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	name := "@transportbench-erpc-" + hex.EncodeToString(id[:])
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		_ = unix.Close(fd)
		return presence{}, err
	}
	return presence{fd, name}, nil
}

func (p presence) close() { _ = unix.Close(p.fd) }

// isPresent reports whether a worker is open whose presence has this name. It cannot tell for workers
// of other hosts and network namespaces.
func isPresent(name string) bool {
	if name == "" || name[0] != '@' {
		return false
	}
	fd, err := presenceSocket()
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name}) == nil
}

func presenceSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}
