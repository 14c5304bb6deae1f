package erpc

import (
	"crypto/rand"
	"encoding/hex"
	"errors"

	"golang.org/x/sys/unix"
)

// presence is a socket that the kernel closes with the process: as long as its name can be
// connected to, the worker that made it is open, whether its process runs or not. The name is in
// the abstract namespace, which the processes of a network namespace share. Nothing is sent.
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

// isPresent reports whether the worker with a presence that was found before may still be open. It
// reports true if it cannot tell, for example without a free descriptor.
func isPresent(name string) bool { return !errors.Is(findPresence(name), unix.ECONNREFUSED) }

// findPresence looks for an open worker whose presence has this name. It returns ECONNREFUSED if
// there is none on this host, or if the worker is in another network namespace; other errors say
// nothing about the worker.
func findPresence(name string) error {
	if name == "" || name[0] != '@' {
		return unix.ECONNREFUSED
	}
	fd, err := presenceSocket()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func presenceSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}
