package sockets

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// newTestWorker opens a transport with one worker, which takes one peer.
func newTestWorker(t testing.TB, options map[string]string) *worker {
	t.Helper()
	return openTestWorker(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 100},
		options)
}

// openTestWorker opens a transport and its first worker.
func openTestWorker(t testing.TB, cfg transport.Config, options map[string]string) *worker {
	t.Helper()
	var err error
	cfg.Options, err = transport.ParseOptions(schema, options)
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	opened, err := tr.NewWorker(0)
	require.NoError(t, err)
	return opened.(*worker)
}

// expecting returns a worker whose peer has nonce zero and is to dial it, and the hello that the
// peer would send.
func expecting(t testing.TB, options map[string]string) (*worker, dial.Hello) {
	t.Helper()
	w := newTestWorker(t, options)
	return w, expect(t, w, 0)
}

// expect adds a peer to a worker, whose nonce is its number: so small that the peer is to dial. It
// returns the hello that the peer would send.
func expect(t testing.TB, w *worker, number byte) dial.Hello {
	t.Helper()
	peers := dial.Nonce{dial.NonceSize - 1: number}
	var own address
	require.NoError(t, json.Unmarshal(w.Address(), &own))
	to := dial.Nonce(own.Nonce)
	own.Nonce = peers[:]
	encoded, err := json.Marshal(own)
	require.NoError(t, err)
	require.NoError(t, w.Connect(context.Background(), transport.PeerID(number), encoded))
	return dial.Hello{To: to, From: peers}
}

// dialled returns a blocking socket to a worker.
func dialled(t testing.TB, w *worker) (fd int, port uint32) {
	t.Helper()
	a, err := w.settings.decodeAddress(w.Address())
	require.NoError(t, err)
	fd, err = w.settings.sock.DialTo(a.socket)
	require.NoError(t, err)
	eventually(t, "a connection", func() bool {
		connected, err := sock.Established(fd)
		require.NoError(t, err)
		return connected
	})
	require.NoError(t, unix.SetNonblock(fd, false))
	own, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fd, sock.PortOf(own)
}

// say connects to a worker as the peer with this hello and writes bytes.
func say(t testing.TB, w *worker, h dial.Hello, said []byte) int {
	t.Helper()
	fd, port := dialled(t, w)
	h.Port = port
	_, err := unix.Write(fd, append(h.Encode(), said...))
	require.NoError(t, err)
	return fd
}

func message(number uint32, size uint32, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, size)
	return append(binary.LittleEndian.AppendUint32(b, number), payload...)
}

var bothNetworks = []string{"tcp", "unix"}

// withEngines runs a test for each engine that this machine has.
func withEngines(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range engineNames() {
		t.Run(engine, func(t *testing.T) {
			transporttest.Properties(t, Driver{}, map[string]string{"engine": engine}) // or skip
			test(t, engine)
		})
	}
}

// TestCorruptPeer: a peer that breaks the protocol is reported by ErrCorrupt and as lost, after the
// messages that it sent before.
func TestCorruptPeer(t *testing.T) { withEngines(t, testCorruptPeer) }

func testCorruptPeer(t *testing.T, engine string) {
	for name, bad := range map[string][]byte{
		"size":                message(1, 101, ""),
		"negative size":       message(1, 1<<31, ""),
		"number":              message(4, 0, ""),
		"number in use":       message(0, 0, ""),
		"reply to no call":    message(replyBit|1, 0, ""),
		"reply out of range":  message(replyBit|4, 0, ""),
		"everything is set":   message(1<<32-1, 1<<32-1, ""),
		"a hello in a stream": (&dial.Hello{}).Encode(),
	} {
		t.Run(name, func(t *testing.T) {
			w, h := expecting(t, map[string]string{"engine": engine})
			fd := say(t, w, h, append(message(0, 3, "abc"), bad...))
			defer unix.Close(fd)
			events := make([]transport.Event, 4)
			var got []transport.Event
			var failure error
			eventually(t, "the loss", func() bool {
				n, err := w.Poll(events)
				for _, e := range events[:n] {
					e.Payload = append([]byte(nil), e.Payload...)
					got = append(got, e)
				}
				if err != nil {
					failure = err
				}
				return len(got) > 0 && got[len(got)-1].Kind == transport.EventPeerLost
			})
			require.ErrorIs(t, failure, transport.ErrCorrupt)
			require.Len(t, got, 2)
			require.Equal(t, "abc", string(got[0].Payload))
			_, err := w.Post([]transport.Op{{Kind: transport.OpReply, Token: got[0].Token}})
			require.ErrorIs(t, err, transport.ErrPeerDown)
		})
	}
}

// TestCutMessage: a peer that ends in the middle of a message is lost, and the message is not
// handed out.
func TestCutMessage(t *testing.T) { withEngines(t, testCutMessage) }

func testCutMessage(t *testing.T, engine string) {
	for _, network := range bothNetworks {
		whole := message(0, 3, "abc")
		for cut := range whole {
			w, h := expecting(t, map[string]string{"network": network, "engine": engine})
			require.NoError(t, unix.Close(say(t, w, h, whole[:cut])))
			events := make([]transport.Event, 4)
			eventually(t, "the loss", func() bool {
				n, err := w.Poll(events)
				require.NoError(t, err)
				return n == 1 && events[0].Kind == transport.EventPeerLost
			})
		}
	}
}

// descriptors returns how many descriptors the process has.
func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// TestStrangers: hundreds of strangers that say nothing, a part of a hello, noise, or a hello with
// a wrong nonce or port are refused, and a peer that comes after them is connected.
func TestStrangers(t *testing.T) { withEngines(t, testStrangers) }

func testStrangers(t *testing.T, engine string) {
	const strangers = 300
	for _, network := range bothNetworks {
		t.Run(network, func(t *testing.T) {
			w, h := expecting(t, map[string]string{"network": network, "engine": engine,
				"timeout": "50ms"})
			before := descriptors(t)
			wrongTo, wrongPort := h, h
			wrongTo.To[3] ^= 1
			wrongPort.Port = 1 // dialled sockets have other ports; Unix sockets have none
			var fds []int
			for i := range strangers {
				fd, port := dialled(t, w)
				fds = append(fds, fd)
				wrongTo.Port = port
				said := [][]byte{nil, h.Encode()[:20], make([]byte, 1000), wrongTo.Encode(),
					wrongPort.Encode()}[i%5]
				if len(said) > 0 {
					_, err := unix.Write(fd, said)
					require.NoError(t, err)
				}
				_, err := w.Poll(nil)
				require.NoError(t, err)
				require.LessOrEqual(t, len(w.connector.Acceptor.Waiting), 2+64)
			}
			fd := say(t, w, h, message(2, 2, "hi"))
			events := make([]transport.Event, 4)
			eventually(t, "the peer's message", func() bool {
				n, err := w.Poll(events)
				require.NoError(t, err)
				return n == 1 && string(events[0].Payload) == "hi"
			})
			eventually(t, "all strangers to be refused", func() bool {
				_, err := w.Poll(nil)
				require.NoError(t, err)
				return len(w.connector.Acceptor.Waiting) == 0 &&
					w.connector.Acceptor.Strangers == strangers
			})
			for _, fd := range append(fds, fd) {
				require.NoError(t, unix.Close(fd))
			}
			eventually(t, "the loss", func() bool {
				n, err := w.Poll(events)
				require.NoError(t, err)
				return n == 1 && events[0].Kind == transport.EventPeerLost
			})
			require.Equal(t, before, descriptors(t))
		})
	}
}

// TestWaitWithStranger: Wait sleeps although a stranger has sent a part of a hello.
func TestWaitWithStranger(t *testing.T) { withEngines(t, testWaitWithStranger) }

func testWaitWithStranger(t *testing.T, engine string) {
	w, h := expecting(t, map[string]string{"engine": engine})
	peer := say(t, w, h, nil)
	defer unix.Close(peer)
	eventually(t, "the peer", func() bool {
		_, err := w.Poll(nil)
		require.NoError(t, err)
		return w.byIndex[0].State == dial.Up
	})
	stranger, _ := dialled(t, w)
	defer unix.Close(stranger)
	eventually(t, "the stranger", func() bool {
		require.NoError(t, w.Wait(time.Second))
		return len(w.connector.Acceptor.Waiting) == 1
	})
	_, err := unix.Write(stranger, h.Encode()[:20])
	require.NoError(t, err)
	before, calls := w.counters.Syscalls, 0
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; calls++ {
		require.NoError(t, w.Wait(10*time.Millisecond))
	}
	// 10 calls that sleep fill the time; the stranger's bytes end one more early.
	require.LessOrEqual(t, calls, 30)
	require.LessOrEqual(t, w.counters.Syscalls-before, uint64(100))
	require.Len(t, w.connector.Acceptor.Waiting, 1)
}

// TestStrangerAfterConnect: a second connection with the peer's hello does not replace the first.
func TestStrangerAfterConnect(t *testing.T) {
	w, h := expecting(t, nil)
	fd := say(t, w, h, message(0, 1, "a"))
	events := make([]transport.Event, 4)
	arrives := func(payload string) {
		eventually(t, payload, func() bool {
			n, err := w.Poll(events)
			require.NoError(t, err)
			return n == 1 && string(events[0].Payload) == payload
		})
	}
	arrives("a")
	again := say(t, w, h, message(1, 1, "b"))
	var end [1]byte
	eventually(t, "its end", func() bool {
		n, err := w.Poll(events)
		require.NoError(t, err)
		require.Zero(t, n)
		_, _, err = unix.Recvfrom(again, end[:], unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	})
	_, err := unix.Write(fd, message(2, 1, "c"))
	require.NoError(t, err)
	arrives("c")
	require.NoError(t, unix.Close(fd))
	require.NoError(t, unix.Close(again))
}

// TestNeverConnected: a peer that does not come is lost after connect-timeout, and Silence says
// why.
func TestNeverConnected(t *testing.T) {
	for _, network := range bothNetworks {
		w, _ := expecting(t, map[string]string{"network": network, "connect-timeout": "20ms"})
		taken, err := w.Post([]transport.Op{{Kind: transport.OpCall, Payload: make([]byte, 100)}})
		require.NoError(t, err)
		require.Equal(t, 1, taken)
		require.NoError(t, w.Flush())
		require.ErrorContains(t, w.Silence(0), "connect-timeout is 20ms")
		events := make([]transport.Event, 1)
		eventually(t, "the loss", func() bool {
			n, err := w.Poll(events)
			require.NoError(t, err)
			return n == 1 && events[0].Kind == transport.EventPeerLost
		})
		require.ErrorContains(t, w.Silence(0), "within 20ms (connect-timeout)")
	}
}

// FuzzFraming feeds a worker with bytes of a peer in parts of different lengths. It hands out the
// whole messages before the first wrong one, and loses the peer only for a wrong one.
func FuzzFraming(f *testing.F) {
	f.Add(append(message(0, 3, "abc"), message(1, 0, "")...), uint8(1))
	f.Add(message(3, 100, string(make([]byte, 100))), uint8(7))
	f.Add(message(replyBit, 2, "ok"), uint8(3))
	f.Fuzz(func(t *testing.T, said []byte, part uint8) {
		w, engine := framed(t)
		var got [][]byte
		events := make([]transport.Event, 3)
		var failure error
		for rest := said; failure == nil; {
			n := min(len(rest), int(part)+1, w.byIndex[0].in.room())
			engine.give = rest[:n]
			rest = rest[n:]
			count, err := w.Poll(events)
			for _, e := range events[:count] {
				if e.Kind != transport.EventPeerLost {
					got = append(got, append([]byte(nil), e.Payload...))
				}
			}
			failure = err
			if len(rest) == 0 && n == 0 && count == 0 {
				break
			}
		}
		want, broken := parse(said)
		require.Equal(t, want, got)
		require.Equal(t, broken, failure != nil, "%v", failure)
	})
}

// parse is the framing of a connection with 4 calls in flight of at most 100 bytes each, on which
// this side has made call 0 only and answers nothing.
func parse(said []byte) (payloads [][]byte, broken bool) {
	var open [4]bool
	waiting := true
	for len(said) >= headerSize {
		size, number := binary.LittleEndian.Uint32(said), binary.LittleEndian.Uint32(said[4:])
		switch {
		case size > 100:
			return payloads, true
		case number == replyBit && waiting:
		case number < 4 && !open[number]:
		default:
			return payloads, true
		}
		if len(said)-headerSize < int(size) {
			break
		}
		if number == replyBit {
			waiting = false
		} else {
			open[number] = true
		}
		payloads = append(payloads, append([]byte(nil), said[headerSize:][:size]...))
		said = said[headerSize+int(size):]
	}
	return payloads, false
}

// givenEngine is an engine without sockets.
type givenEngine struct {
	w    *worker
	give []byte // what the next progress receives
}

func (e *givenEngine) attach(*conn) error     { return nil }
func (e *givenEngine) lend(*conn, []byte) int { return 0 }
func (e *givenEngine) send(c *conn)           { c.out.sent = c.out.posted }
func (e *givenEngine) submit()                {}
func (e *givenEngine) release(*conn)          {}
func (e *givenEngine) detach(*conn) error     { return nil }
func (e *givenEngine) close() error           { return nil }
func (e *givenEngine) prepareWait(list []unix.PollFd) ([]unix.PollFd, bool) {
	return list, true
}
func (e *givenEngine) progress() {
	if c := &e.w.byIndex[0].conn; len(e.give) > 0 {
		copy(c.in.ring.at(c.in.received, len(e.give)), e.give)
		c.in.received += uint64(len(e.give))
		e.w.found(c)
	}
	e.give = nil
}

// framed returns a worker with one peer that is up, over such an engine. Call 0 is in flight.
func framed(t *testing.T) (*worker, *givenEngine) {
	w, _ := expecting(t, map[string]string{"buffer": "64KiB"})
	require.NoError(t, w.engine.close())
	e := &givenEngine{w: w}
	w.engine = e
	w.byIndex[0].State = dial.Up
	taken, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.NoError(t, err)
	require.Equal(t, 1, taken)
	return w, e
}
