package sockets

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// TestPeerAfterFailedRing: a peer that connects after the ring has failed is lost.
func TestPeerAfterFailedRing(t *testing.T) {
	options := map[string]string{"engine": engineUring}
	transporttest.Properties(t, Driver{}, options) // skips without io_uring
	w, h := expecting(t, options)
	failure := errors.New("the ring has failed")
	w.engine.(*uringEngine).failure = failure
	fd := say(t, w, h, nil)
	defer unix.Close(fd)
	events := make([]transport.Event, 1)
	eventually(t, "the loss", func() bool {
		n, err := w.Poll(events)
		require.NoError(t, err)
		return n == 1 && events[0].Kind == transport.EventPeerLost
	})
	require.ErrorIs(t, w.Silence(0), failure)
}
