package floor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// ErrStreamEnded is the error of a probe whose other side has closed its socket.
var ErrStreamEnded = errors.New("the other side of the probe has closed its socket")

// streamBuffer is the most bytes that one call sends or receives, unless a message is longer. It
// fits a core's cache.
const streamBuffer = 256 << 10

// ProbeStream is one side of a probe over a connected, non-blocking stream socket that nothing else
// uses: round trips of one message, or messages in flight in both directions. It calls only send(2)
// and recv(2). Messages have a header and a payload like those of a transport. It spins as in
// package spin.
func ProbeStream(ctx context.Context, fd int, probe transport.Probe) (transport.Floor, error) {
	s, err := newStream(fd, probe)
	if err != nil {
		return transport.Floor{}, err
	}
	defer context.AfterFunc(ctx, func() { s.stopped.Store(true) })()
	m := Messages{Name: "raw " + streamKind(fd), Medium: s, Wait: &s.wait}
	reading, err := m.Probe(ctx, probe)
	if err == nil {
		err = s.finish()
	}
	if err == nil && s.stopped.Load() {
		reading, err = transport.Floor{}, context.Cause(ctx)
	}
	return reading, err
}

// ProbeSockets is one side of a probe over a new socket. dial begins to connect it and returns the
// hello to send first. accept returns a socket that the other side has dialled, after its hello, or
// -1 if there is none.
func ProbeSockets(ctx context.Context, probe transport.Probe,
	dial func() (fd int, hello []byte, err error), accept func() (fd int, err error)) (
	transport.Floor, error) {
	if probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
		return transport.Floor{}, transport.ErrUnsupported
	}
	if probe.Initiate {
		fd, hello, err := dial()
		if err != nil {
			return transport.Floor{}, err
		}
		return probeDialled(ctx, fd, hello, probe)
	}
	for {
		fd := -1
		err := whileIdle(ctx, func() (done bool, err error) {
			fd, err = accept()
			return fd >= 0, err
		})
		if err != nil {
			return transport.Floor{}, err
		}
		reading, err := ProbeStream(ctx, fd, probe)
		_ = unix.Close(fd)
		// The socket of an abandoned probe has ended; the initiator dials another.
		if !errors.Is(err, ErrStreamEnded) && !errors.Is(err, unix.ECONNRESET) &&
			!errors.Is(err, unix.EPIPE) {
			return reading, err
		}
	}
}

// probeDialled sends the hello on a socket that may not be connected yet, measures, and closes the
// socket.
func probeDialled(ctx context.Context, fd int, hello []byte,
	probe transport.Probe) (reading transport.Floor, err error) {
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	err = whileIdle(ctx, func() (bool, error) {
		n, err := streamSend(fd, hello)
		hello = hello[n:]
		return len(hello) == 0, err
	})
	if err != nil {
		return reading, fmt.Errorf("connecting for a probe: %w", err)
	}
	return ProbeStream(ctx, fd, probe)
}

// whileIdle calls step until it is done, and returns early if ctx ends.
func whileIdle(ctx context.Context, step func() (done bool, err error)) error {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	for wait := (spin.Wait{}); ; wait.IdleCall() {
		if done, err := step(); done || err != nil {
			return err
		}
		if stopped.Load() {
			return context.Cause(ctx)
		}
	}
}

// streamKind returns what readings call a socket.
func streamKind(fd int) string {
	switch family, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); family {
	case unix.AF_UNIX:
		return "Unix"
	case unix.AF_VSOCK:
		return "vsock"
	}
	return "TCP"
}

// stream is one side of a socket.
type stream struct {
	fd      int
	stopped atomic.Bool
	wait    spin.Wait // until bytes move

	out    []byte // whole messages of outLen
	word   uint64 // their first
	outLen int    // bytes of a message
	next   int    // offset in out of the next byte to send
	unsent int    // bytes to send

	in    []byte
	inLen int     // bytes of a message
	part  int     // bytes of the current message that have arrived
	head  [8]byte // its first bytes
}

func newStream(fd int, probe transport.Probe) (*stream, error) {
	if probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
		return nil, transport.ErrUnsupported
	}
	if probe.Forth < 0 || probe.Back < 0 {
		return nil, fmt.Errorf("%w: payloads of %d and %d bytes", transport.ErrUnsupported,
			probe.Forth, probe.Back)
	}
	s := &stream{fd: fd, outLen: probe.Forth + transport.ProbeHeader, inLen: probe.Back +
		transport.ProbeHeader}
	if !probe.Initiate {
		s.outLen, s.inLen = s.inLen, s.outLen
	}
	messages := max(min(streamBuffer/s.outLen, max(probe.InFlight, 1)), 1)
	s.out = make([]byte, messages*s.outLen)
	s.in = make([]byte, min(streamBuffer, s.inLen*max(probe.InFlight, 1)))
	return s, nil
}

// mark sets the first word of all messages to value. Nothing may be unsent: a side changes the word
// only after the last message is answered.
func (s *stream) mark(value uint64) {
	s.word = value
	for at := 0; at < len(s.out); at += s.outLen {
		binary.LittleEndian.PutUint64(s.out[at:], value)
	}
}

// push sends some of what is unsent, without waiting.
func (s *stream) push() error {
	for s.unsent > 0 {
		n := min(s.unsent, len(s.out)-s.next)
		sent, err := streamSend(s.fd, s.out[s.next:s.next+n])
		if err != nil {
			return err
		}
		if sent > 0 {
			s.wait.Found()
		}
		s.unsent -= sent
		if s.next += sent; s.next == len(s.out) {
			s.next = 0
		}
		if sent < n {
			return nil
		}
	}
	return nil
}

// finish sends all that is unsent.
func (s *stream) finish() error {
	for ; s.unsent > 0 && !s.stopped.Load(); s.wait.IdleCall() {
		if err := s.push(); err != nil {
			return err
		}
	}
	return nil
}

// pull receives without waiting. It returns the number of complete messages and the first word of
// the last one.
func (s *stream) pull() (messages int, head uint64, err error) {
	n, err := streamReceive(s.fd, s.in)
	if n > 0 {
		s.wait.Found()
	}
	for b := s.in[:n]; len(b) > 0; {
		if s.part < len(s.head) {
			copy(s.head[s.part:], b)
		}
		got := min(len(b), s.inLen-s.part)
		b = b[got:]
		if s.part += got; s.part == s.inLen {
			s.part = 0
			messages++
			head = binary.LittleEndian.Uint64(s.head[:])
		}
	}
	return messages, head, err
}

// Post implements [MessageMedium]. Take and finish send what it posts.
func (s *stream) Post(word uint64, n int) (int, error) {
	if s.unsent == 0 {
		s.next = 0
	}
	if word != s.word {
		s.mark(word)
	}
	s.unsent += n * s.outLen
	return n, nil
}

// Take implements [MessageMedium].
func (s *stream) Take() (n int, word uint64, err error) {
	if err := s.push(); err != nil {
		return 0, 0, err
	}
	return s.pull()
}

// streamSend sends without waiting and returns how much the socket took.
func streamSend(fd int, b []byte) (int, error) { return streamResult(sendBytes(fd, b)) }

// streamReceive receives without waiting. It returns ErrStreamEnded once the other side has closed.
func streamReceive(fd int, b []byte) (int, error) {
	n, errno := receiveBytes(fd, b)
	if n == 0 && errno == 0 {
		return 0, ErrStreamEnded
	}
	return streamResult(n, errno)
}

func streamResult(n int, errno unix.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case unix.EAGAIN, unix.EINTR, unix.ENOTCONN: // or not connected yet
		return 0, nil
	}
	return 0, errno
}
