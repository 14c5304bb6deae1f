package grpc

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
)

// dialSocket dials a worker, and retries while its host is unreachable.
func dialSocket(ctx context.Context, network, at string) (conn net.Conn, err error) {
	err = control.WhileUnreachable(ctx, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, at)
		return err
	})
	return conn, err
}

// refused reports whether a dial failed because nothing listens at the address. The peer listened
// before it published the address, so it is gone.
func refused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }
