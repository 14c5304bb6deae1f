package calibration

import (
	"errors"
	"io"
	"net"
	"sync"

	"transportbench/core/transport"
)

// Values of the option path.
const (
	pathMemory = "memory"
	pathTCP    = "tcp"
	pathDetour = "detour"
)

// ReadPaths implements [transport.PathReader]. With pathTCP it lies.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	if w.injection.path == pathTCP {
		return append(dst, transport.Path{Carrier: transport.MediumTCP, Local: "127.0.0.1",
			Remote: "127.0.0.1"})
	}
	return w.soundWorker.ReadPaths(dst)
}

// detour is a TCP connection within this process, over which a worker sends all payloads once more
// and which it does not state.
type detour struct {
	near, far net.Conn
	draining  sync.WaitGroup
}

func newDetour() (*detour, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	d := &detour{}
	if d.near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		return nil, err
	}
	if d.far, err = listener.Accept(); err != nil {
		return nil, errors.Join(err, d.near.Close())
	}
	d.draining.Go(func() { _, _ = io.Copy(io.Discard, d.far) })
	return d, nil
}

// send waits if the connection is full: the worker with a detour is no example.
func (d *detour) send(ops []transport.Op) {
	for i := range ops {
		_, _ = d.near.Write(ops[i].Payload) // an error shows in the counters
	}
}

func (d *detour) close() error {
	err := errors.Join(d.near.Close(), d.far.Close())
	d.draining.Wait()
	return err
}
