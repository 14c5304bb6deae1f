package floor_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// packets is the medium of a socket that keeps the bounds of messages.
type packets struct {
	fd      int
	out, in []byte // a message each
}

// Post implements [floor.MessageMedium].
func (p *packets) Post(word uint64, n int) (posted int, err error) {
	binary.LittleEndian.PutUint64(p.out, word)
	for ; posted < n; posted++ {
		if _, err := unix.Write(p.fd, p.out); err == unix.EAGAIN { // no room
			break
		} else if err != nil {
			return posted, err
		}
	}
	return posted, nil
}

// Take implements [floor.MessageMedium].
func (p *packets) Take() (n int, word uint64, err error) {
	switch _, err := unix.Read(p.fd, p.in); err {
	case nil:
		return 1, binary.LittleEndian.Uint64(p.in), nil
	case unix.EAGAIN: // nothing has arrived
		return 0, 0, nil
	default:
		return 0, 0, err
	}
}

// socketPair returns both sides of a socket.
func socketPair(size int) (a, b *floor.Messages, closeAll func()) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		panic(err)
	}
	side := func(fd int) *floor.Messages {
		return &floor.Messages{Name: "raw packet",
			Medium: &packets{fd: fd, out: make([]byte, size), in: make([]byte, size)}}
	}
	return side(fds[0]), side(fds[1]), func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
}

// Both floors of a socket that keeps the bounds of messages.
func ExampleMessages() {
	near, far, closeAll := socketPair(64 + transport.ProbeHeader)
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, kind := range []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate} {
		probe := transport.Probe{Kind: kind, Duration: time.Millisecond, Forth: 64, Back: 64,
			InFlight: 16}
		done := make(chan error)
		go func() {
			_, err := far.Probe(ctx, probe)
			done <- err
		}()
		lead := probe
		lead.Initiate = true
		reading, err := near.Probe(ctx, lead)
		fmt.Println(reading.Name, reading.RoundTrip+reading.PerOp > 0, err, <-done)
	}
	// Output:
	// raw packet ping-pong true <nil> <nil>
	// raw packet stream true <nil> <nil>
}

// TestMessagesAfterAbandoned: probes of either kind and by either side ignore what a probe has left
// that one side gave up, or that the other side never joined.
func TestMessagesAfterAbandoned(t *testing.T) {
	near, far, closeAll := socketPair(24)
	defer closeAll()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(ctx context.Context, kind transport.ProbeKind, d time.Duration) (transport.Floor,
		error) {
		probe := transport.Probe{Kind: kind, Duration: d, InFlight: 8}
		var follower sync.WaitGroup
		follower.Go(func() {
			if _, err := far.Probe(ctx, probe); ctx.Err() == nil {
				require.NoError(t, err)
			}
		})
		defer follower.Wait()
		lead := probe
		lead.Initiate = true
		return near.Probe(ctx, lead)
	}
	kinds := []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate}
	for i := range 12 {
		short, stop := context.WithTimeout(ctx, time.Duration(1+i%3)*time.Millisecond)
		probe := transport.Probe{Kind: kinds[i%2], Duration: time.Hour, InFlight: 8, Initiate: true}
		var err error
		if i%4 < 2 {
			_, err = near.Probe(short, probe)
		} else {
			_, err = run(short, probe.Kind, time.Hour)
		}
		stop()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		near, far = far, near
		for _, kind := range kinds {
			reading, err := run(ctx, kind, time.Millisecond)
			require.NoError(t, err)
			require.Positive(t, reading.Samples)
		}
	}
}

func TestMessagesOfABrokenMedium(t *testing.T) {
	near, _, closeAll := socketPair(24)
	closeAll()
	for _, kind := range []transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate} {
		for _, initiate := range []bool{true, false} {
			_, err := near.Probe(t.Context(), transport.Probe{Kind: kind, Initiate: initiate})
			require.ErrorIs(t, err, unix.EBADF)
		}
	}
	_, err := near.Probe(t.Context(), transport.Probe{Kind: transport.ProbeLibrary})
	require.ErrorIs(t, err, transport.ErrUnsupported)
}
