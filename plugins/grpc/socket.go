package grpc

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
)

// dialSocket dials a worker, and tries again while no packet gets to its host.
func dialSocket(ctx context.Context, network, at string) (conn net.Conn, err error) {
	err = control.WhileUnreachable(ctx, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, at)
		return err
	})
	return conn, err
}

// refused reports whether err of a dial means that nothing listens at the address. Something did
// when the address was made, so the peer is gone.
func refused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }
