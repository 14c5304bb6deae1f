package dial

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
)

// testPeer is a peer with one socket.
type testPeer struct {
	Link
	fd    int
	dials int
	err   error // of Dial
	freed bool
}

func (p *testPeer) Dial() (err error) {
	p.dials++
	if p.err != nil {
		return p.err
	}
	p.fd, err = p.DialGreeting([]uint16{7, 8})
	return err
}

func (p *testPeer) CloseSockets() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}

func (p *testPeer) Accept(a *sock.Arrival, h *Hello) bool {
	if p.fd >= 0 || h.Ports[0] != 7 || h.Ports[1] != 8 {
		return false
	}
	p.fd = a.FD
	return true
}

func (p *testPeer) Attach() (bool, error) {
	if p.fd < 0 {
		return false, nil
	}
	p.State = Up
	return true, nil
}

func (p *testPeer) Socket() int { return p.fd }

func (p *testPeer) Free() error {
	p.freed = true
	return nil
}

// side is a worker with one peer.
type side struct {
	Connector[testPeer, *testPeer]
	table control.Peers[testPeer, Nonce]
	peer  *testPeer
	at    netip.AddrPort
	own   Nonce
	lost  error
}

func newSide(t *testing.T, own byte, connectTimeout time.Duration) *side {
	t.Helper()
	options := &sock.Options{Address: netip.MustParseAddr("127.0.0.1"), Timeout: time.Second}
	fd, at, err := options.Listen(0)
	require.NoError(t, err)
	s := &side{own: Nonce{own}, at: at}
	s.table = control.NewPeers[testPeer](2, 2, s.own)
	c := Config{Own: s.own, Sockets: options, ConnectTimeout: connectTimeout, Payload: 10}
	s.Connector = NewConnector(c, fd, 2, &s.table)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		if s.peer != nil {
			s.peer.Stop()
			require.NoError(t, s.peer.CloseSockets())
		}
	})
	return s
}

// open returns a peer for another side.
func (s *side) open(to *side, dialError error) *testPeer {
	return &testPeer{fd: -1, err: dialError,
		Link: s.NewLink(1, to.own, sock.ToKernel(to.at), to.at.String())}
}

// begin begins to connect to another side.
func (s *side) begin(t *testing.T, to *side, dialError error) {
	t.Helper()
	var err error
	s.peer, err = s.Connect(1, to.own, func() (*testPeer, error) {
		return s.open(to, dialError), nil
	})
	require.NoError(t, err)
}

func (s *side) poll() error {
	err := s.Accept()
	s.Continue(func(p *testPeer, err error) {
		s.lost = err
		p.SetLost(err, -1)
	})
	return err
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Microsecond) {
		require.True(t, time.Now().Before(deadline), "waiting for %s", what)
	}
}

// TestSmallerNonceDials connects two sides, of which one dials.
func TestSmallerNonceDials(t *testing.T) {
	a, b := newSide(t, 1, time.Minute), newSide(t, 2, time.Minute)
	a.begin(t, b, nil)
	b.begin(t, a, nil)
	require.True(t, a.peer.Dials)
	require.False(t, b.peer.Dials)
	require.ErrorContains(t, b.Silence(1), "no connection with "+a.at.String()+" yet")
	eventually(t, "the connection", func() bool {
		require.NoError(t, a.poll())
		require.NoError(t, b.poll())
		return a.peer.State == Up && b.peer.State == Up
	})
	require.Equal(t, []int{1, 0}, []int{a.peer.dials, b.peer.dials})
	require.Empty(t, a.Pending())
	require.Empty(t, b.Pending())
}

// TestDialsAgain: while the peer cannot be reached, the dialling side tries again, and then the
// peer is lost.
func TestDialsAgain(t *testing.T) {
	a, b := newSide(t, 1, 300*time.Millisecond), newSide(t, 2, time.Minute)
	a.begin(t, b, unix.EHOSTUNREACH)
	require.ErrorIs(t, a.Silence(1), unix.EHOSTUNREACH)
	_, _, timeout := a.Interests(nil, time.Hour)
	require.LessOrEqual(t, timeout, dialEvery)
	eventually(t, "the loss", func() bool {
		require.NoError(t, a.poll())
		return a.lost != nil
	})
	require.ErrorContains(t, a.lost, "within 300ms (connect-timeout)")
	require.ErrorIs(t, a.lost, unix.EHOSTUNREACH)
	require.Greater(t, a.peer.dials, 2)
	require.GreaterOrEqual(t, a.peer.Waited(), 300*time.Millisecond)
}

// TestDialFails: other errors of dialling end the connection at once.
func TestDialFails(t *testing.T) {
	a, b := newSide(t, 1, time.Minute), newSide(t, 2, time.Minute)
	broken := errors.New("broken")
	p := a.open(b, broken)
	_, err := a.Connect(1, b.own, func() (*testPeer, error) { return p, nil })
	require.ErrorIs(t, err, broken)
	require.True(t, p.freed)
	require.Empty(t, a.Pending())
	require.Nil(t, a.table.Get(1))
}

// TestTimeoutCountsPolls: time in which a worker does not poll does not count.
func TestTimeoutCountsPolls(t *testing.T) {
	a, b := newSide(t, 2, time.Hour), newSide(t, 1, time.Hour)
	a.begin(t, b, nil)
	for range 3 {
		a.last -= int64(30 * time.Minute)
		before := a.peer.Waited()
		require.NoError(t, a.poll())
		require.Equal(t, before+time.Duration(maxStep), a.peer.Waited())
		require.Equal(t, Connecting, a.peer.State)
	}
}

// TestReplayedHello: the hello of a probe opens no second probe from another port.
func TestReplayedHello(t *testing.T) {
	a, b := newSide(t, 2, time.Minute), newSide(t, 1, time.Minute)
	a.begin(t, b, nil)
	h := Hello{To: a.own, From: b.own, Use: Probe}
	said := func() (fd int) {
		fd, err := a.config.Sockets.Dial(a.at)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		if h.Port == 0 {
			port, err := sock.LocalPort(fd)
			require.NoError(t, err)
			h.Port = uint32(port)
		}
		for rest := h.Encode(); len(rest) > 0; {
			n, err := sock.SendBytes(fd, rest)
			if !errors.Is(err, unix.ENOTCONN) {
				require.NoError(t, err)
			}
			rest = rest[n:]
		}
		return fd
	}
	said()
	eventually(t, "the socket of the probe", func() bool {
		require.NoError(t, a.poll())
		return a.peer.probe >= 0
	})
	first := a.peer.probe
	replay := said()
	eventually(t, "the replay to be dropped", func() bool {
		require.NoError(t, a.poll())
		return sock.Peek(replay) != nil
	})
	require.Equal(t, first, a.peer.probe)
	require.Equal(t, uint64(1), a.Acceptor.Strangers)
}

// FuzzHello: every hello that is accepted is the encoding of what was decoded.
func FuzzHello(f *testing.F) {
	var to Nonce
	honest := Hello{To: to, From: Nonce{7}, Use: Messages, Port: 40002,
		Ports: [MaxPorts]uint16{40000, 40001, MaxPorts - 1: 1<<16 - 1}}
	f.Add(honest.Encode())
	f.Add(honest.Encode()[1:])
	f.Fuzz(func(t *testing.T, said []byte) {
		if h, ok := DecodeHello(said, to, 40002); ok {
			require.Equal(t, h.Encode(), said)
		}
	})
}
