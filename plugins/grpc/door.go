package grpc

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// maxStrange bounds the connections without a preface. Beyond it, the oldest is closed.
const maxStrange = 64

// door is a listener that bounds how many connections strangers can hold.
type door struct {
	net.Listener
	mu        sync.Mutex
	strange   []net.Conn // without a preface, the oldest first
	strangers atomic.Uint64
}

// Accept implements [net.Listener].
func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strange) == maxStrange {
		_ = d.strange[0].Close()
		d.strange = slices.Delete(d.strange, 0, 1)
	}
	d.strange = append(d.strange, conn)
	return conn, nil
}

// known is called when a connection has sent its preface, right or wrong, or has ended.
func (d *door) known(conn net.Conn, welcome bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strange = slices.DeleteFunc(d.strange, func(c net.Conn) bool { return c == conn })
	if !welcome {
		d.strangers.Add(1)
	}
}
