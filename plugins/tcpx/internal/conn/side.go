package conn

import (
	"errors"
	"sync/atomic"

	"transportbench/core/fabric/sock"
	"transportbench/core/fabric/spin"
	"transportbench/plugins/tcpx/internal/bounce"
)

// Side is one side of a bulk transfer: a connection without messages and its bounce memory.
// Requests are sent from the caller's memory, and each is unpacked where the caller says.
type Side struct {
	*Conn
	Counters    Counters
	Destination bounce.Buffer // as NewSide has made it
	memory      bounce.Allocator
	unpacker    *bounce.Slots
}

// NewSide makes a side over connected sockets, the control socket first, with a destination of that
// many bytes. It owns the sockets, the memory and the unpacker, even if it fails.
func NewSide(c *Config, sockets []int, memory bounce.Allocator, unpacker *bounce.Slots,
	destination int, zeroCopy bool) (*Side, error) {
	s := &Side{memory: memory, unpacker: unpacker}
	bounce.MoreThreads(c.Threads)
	s.Conn = New(c, 0, memory, unpacker, &s.Counters)
	err := s.Attach(sockets[0], sockets[1:])
	if err == nil && zeroCopy {
		err = s.UseZeroCopy()
	}
	if err == nil {
		err = s.StartHelpers(nil)
	}
	if err == nil && destination > 0 {
		s.Destination, err = unpacker.Allocate(destination)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// NewSides makes two sides that are connected over an address of this host. newMemory makes the
// memory of each. The second has a destination of that many bytes.
func NewSides(c *Config, options *sock.Options, zeroCopy bool, destination int,
	newMemory func() (bounce.Allocator, *bounce.Slots, error)) (a, b *Side, err error) {
	near, far, err := options.Pairs(c.Lanes + 1)
	if err != nil {
		return nil, nil, err
	}
	side := func(sockets []int, destination int) (*Side, error) {
		memory, unpacker, err := newMemory()
		if err != nil {
			return nil, errors.Join(err, sock.CloseAll(sockets))
		}
		return NewSide(c, sockets, memory, unpacker, destination, zeroCopy)
	}
	if a, err = side(near, 0); err != nil {
		return nil, nil, errors.Join(err, sock.CloseAll(far))
	}
	if b, err = side(far, destination); err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	return a, b, nil
}

// Memory returns the bounce memory as the processor sees it; nil if it cannot.
func (s *Side) Memory() []byte { return s.memory.Memory() }

// Close releases everything. It waits for what is being unpacked.
func (s *Side) Close() error {
	err := s.Conn.Close()
	s.Release(true)
	bounce.MoreThreads(-s.config.Threads)
	if s.Destination.Size > 0 {
		err = errors.Join(err, s.unpacker.Free(s.Destination))
		s.Destination = bounce.Buffer{}
	}
	return errors.Join(err, s.unpacker.Close(), s.memory.Close())
}

// Progress moves bytes in both directions.
func (s *Side) Progress() error {
	if err := s.Receive(); err != nil {
		return err
	}
	if err := s.sendRequests(s.MayHoldCredits()); err != nil {
		return err
	}
	return s.FinishPoll()
}

// SendAll sends what next returns, request by request, until next returns nil, and then an empty
// request that ends the transfer. The memory must not change until SendAll returns. Tags count from
// tag.
func (s *Side) SendAll(stopped *atomic.Bool, tag uint64, next func() []byte) error {
	out := &s.Out
	var wait spin.Wait
	for more := true; more || out.UnderWay() > 0; {
		out.windowFull = false
		for more && out.UnderWay() < s.config.SendWindow {
			part := next()
			more = len(part) > 0
			if err := out.PostSend(part, tag+out.Posted()); err != nil {
				return err
			}
		}
		out.windowFull = more
		before := s.Counters.SentBytes
		if err := s.Progress(); err != nil {
			return err
		}
		underWay := out.UnderWay()
		out.FreeAll()
		idle := underWay == out.UnderWay() && before == s.Counters.SentBytes
		if err := Stepped(stopped, &wait, idle); err != nil {
			return err
		}
	}
	return nil
}

// ReceiveAll receives a transfer, each request into what next returns for its number, and returns
// the bytes of the transfer. Tags count from tag.
func (s *Side) ReceiveAll(stopped *atomic.Bool, tag uint64,
	next func(number uint64) bounce.Buffer) (bytes int, err error) {
	in := &s.In
	var wait spin.Wait
	for ended := false; !ended; {
		for in.requests.Len() < s.config.ReceiveWindow {
			if err := in.PostReceive(next(in.Posted()), tag+in.Posted()); err != nil {
				return bytes, err
			}
		}
		before := s.Counters.ReceivedBytes
		if err := s.Progress(); err != nil {
			return bytes, err
		}
		consumed := in.Consumed()
		for !ended {
			size, ok, err := in.Consume()
			if err != nil {
				return bytes, err
			}
			if !ok {
				break
			}
			bytes += size
			ended = size == 0
		}
		idle := consumed == in.Consumed() && before == s.Counters.ReceivedBytes
		if err := Stepped(stopped, &wait, idle); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

var errStopped = errors.New("stopped")

// Stepped is called after each step of a loop. It returns an error if the loop is to stop.
func Stepped(stopped *atomic.Bool, wait *spin.Wait, idle bool) error {
	if idle {
		wait.IdleCall()
	} else {
		wait.Found()
	}
	if stopped.Load() {
		return errStopped
	}
	return nil
}
