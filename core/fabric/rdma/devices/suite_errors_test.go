package devices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

var errorTests = []test{
	{"errors/remote-key", errorRemoteAccess(
		func(r *rdma.SendRequest, _ *side) { r.RemoteKey ^= 0xff })},
	{"errors/remote-end", errorRemoteAccess(func(r *rdma.SendRequest, b *side) {
		r.Remote = b.memory.Remote.Address + b.memory.Remote.Length - uint64(r.Length) + 1
	})},
	{"errors/remote-start", errorRemoteAccess(
		func(r *rdma.SendRequest, b *side) { r.Remote = b.memory.Remote.Address - 1 })},
	{"errors/closed-region", errorRemoteAccess(
		func(_ *rdma.SendRequest, b *side) { require.NoError(b.t, b.memory.Close()) })},
	{"errors/no-write-access", errorNoAccess(rdma.Write, rdma.RemoteRead)},
	{"errors/no-read-access", errorNoAccess(rdma.Read, rdma.RemoteWrite)},
	{"errors/no-atomic-access", errorNoAccess(rdma.FetchAdd, rdma.RemoteRead|rdma.RemoteWrite)},
	{"errors/local-key", errorLocalKey},
	{"errors/flush", errorFlush},
	{"errors/receive-too-short", errorReceiveTooShort},
	{"errors/receiver-not-ready", errorReceiverNotReady},
	{"errors/peer-closed", errorPeerClosed},
	{"errors/completions-of-closed", errorCompletionsOfClosed},
	{"errors/connect", errorConnect},
	{"errors/unconnected", errorUnconnected},
	{"errors/closed", errorClosed},
}

// errorRemoteAccess returns a test of a WRITE that spoil makes invalid for the responder.
func errorRemoteAccess(spoil func(*rdma.SendRequest, *side)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		for _, n := range []int{16, 5000} {
			a, b := s.pair(t, setup{})
			b.receive(2, 0, 0)
			good := toward(a.request(rdma.WriteWithImmediate, 1, 0, n), b, 0)
			a.post(good)
			a.succeed(b, 1, rdma.WriteWithImmediate)
			b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
			bad := toward(a.request(rdma.Write, 2, 0, n), b, 0)
			spoil(&bad, b)
			a.post(bad)
			c := a.next(b)
			require.Equal(t, rdma.StatusRemoteAccess, c.Status, "%v", c.Status)
			require.EqualValues(t, 2, c.ID)
		}
	}
}

func errorNoAccess(opcode rdma.Opcode, access rdma.Access) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		a, b := s.pair(t, setup{access: access})
		a.post(toward(a.request(opcode, 1, 0, 8), b, 0))
		c := a.next(b)
		require.Equal(t, rdma.StatusRemoteAccess, c.Status, "%v", c.Status)
	}
}

func errorLocalKey(t *testing.T, s *suite) {
	for _, spoil := range []func(*rdma.SendRequest, *side){
		func(r *rdma.SendRequest, _ *side) { r.LocalKey ^= 0xff },
		func(r *rdma.SendRequest, a *side) { r.Local += uint64(len(a.memory.Bytes)) },
	} {
		a, b := s.pair(t, setup{})
		bad := toward(a.request(rdma.Write, 1, 0, 5000), b, 0)
		spoil(&bad, a)
		a.post(bad)
		c := a.next(b)
		// Soft-RoCE reports the second.
		require.Contains(t, []rdma.Status{rdma.StatusLocalProtection, rdma.StatusLocalOperation},
			c.Status, "%v", c.Status)
	}
}

// errorFlush checks that all requests after a failed one complete as flushed, signaled or
// not.
func errorFlush(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	a.receive(3, 0, 0)
	bad := toward(a.request(rdma.Write, 1, 0, 16), b, 0)
	bad.RemoteKey ^= 0xff
	unsignaled := toward(a.request(rdma.Write, 2, 0, 16), b, 0)
	unsignaled.Flags = 0
	a.post(bad, unsignaled, toward(a.request(rdma.WriteWithImmediate, 3, 0, 16), b, 0))
	c := a.next(b)
	require.Equal(t, rdma.StatusRemoteAccess, c.Status, "%v", c.Status)
	flushed := map[uint64]bool{}
	for range 5 { // two requests, three receives
		c := a.next(b)
		require.Equal(t, rdma.StatusFlushed, c.Status, "%v of %d", c.Status, c.ID)
		flushed[c.ID] = true
	}
	require.Equal(t, map[uint64]bool{2: true, 3: true, 1000: true, 1001: true, 1002: true}, flushed)
	a.post(toward(a.request(rdma.Write, 4, 0, 16), b, 0))
	require.Equal(t, rdma.StatusFlushed, a.next(b).Status)
	require.Empty(t, b.queue, "a flushed request arrived")
}

func errorReceiveTooShort(t *testing.T, s *suite) {
	for _, n := range []int{17, 5000} {
		a, b := s.pair(t, setup{})
		b.receive(1, 0, 16)
		a.post(a.request(rdma.Send, 1, 0, n))
		// Soft-RoCE reports the second of each.
		require.Contains(t, []rdma.Status{rdma.StatusLocalLength, rdma.StatusLocalOperation},
			b.next(a).Status)
		require.Contains(t, []rdma.Status{rdma.StatusRemoteInvalid, rdma.StatusRemoteOperation},
			a.next(b).Status)
	}
}

func errorReceiverNotReady(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{connect: rdma.ConnectOptions{ReceiverNotReadyRetries: 1,
		ReceiverNotReadyTimer: 1, MTU: s.Connect.MTU}})
	a.post(toward(a.request(rdma.WriteWithImmediate, 1, 0, 16), b, 0))
	c := a.next(b)
	require.Equal(t, rdma.StatusReceiverNotReadyOut, c.Status, "%v", c.Status)
	b.receive(1, 0, 0)
	quiet(a, b)
}

// errorPeerClosed checks requests to a closed peer. It waits for the retries of all cases at
// once because they take long.
func errorPeerClosed(t *testing.T, s *suite) {
	var wait []func()
	for _, opcode := range []rdma.Opcode{rdma.Write, rdma.WriteWithImmediate, rdma.Send,
		rdma.Read} {
		for _, n := range []int{0, 16, 5000} {
			if n == 0 && opcode == rdma.Read {
				continue
			}
			a, b := s.pair(t, setup{connect: s.Impatient, memory: 64 << 10})
			b.receive(1, 0, 5000)
			a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
			a.succeed(b, 1, rdma.Write)
			require.NoError(t, b.qp.Close())
			require.NoError(t, b.qp.Close())
			a.post(toward(a.request(opcode, 2, 0, n), b, 0))
			wait = append(wait, func() {
				c := a.next(b)
				require.Equal(t, rdma.StatusRetryExceeded, c.Status, "%v of %d bytes: %v", opcode,
					n, c.Status)
			})
		}
	}
	for _, w := range wait {
		w()
	}
}

// errorCompletionsOfClosed checks that completions which are not polled when their queue
// pair closes are never polled.
func errorCompletionsOfClosed(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{})
	b.receive(2, 0, 0)
	for i := range 2 {
		a.post(toward(a.request(rdma.WriteWithImmediate, uint64(i), 0, 16), b, 0))
		until("the message", func() bool { return len(b.queue) > i }, b) // a does not poll
	}
	require.NoError(t, a.qp.Close())
	b.queue = nil
	quiet(a, b)
}

func errorConnect(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{separate: true})
	for name, o := range map[string]rdma.ConnectOptions{
		"MTU": {MTU: 1000}, "timeout": {Timeout: 32}, "retry count": {Retries: 8},
		"receiver-not-ready": {ReceiverNotReadyRetries: 7}, "READs": {ReadsInFlight: -1},
	} {
		err := a.qp.Connect(b.qp.Endpoint(), o)
		require.ErrorIs(t, err, rdma.ErrInvalid, name)
		require.ErrorContains(t, err, name)
	}
	_, err := a.qp.AddPeer(b.qp.Endpoint())
	require.ErrorIs(t, err, rdma.ErrInvalid, "AddPeer of an RC queue pair")
	other := b.qp.Endpoint()
	other.Provider = "other"
	require.ErrorIs(t, a.qp.Connect(other, s.Connect), rdma.ErrPeer)
	other = b.qp.Endpoint()
	other.Type = rdma.UnreliableDatagram
	require.ErrorIs(t, a.qp.Connect(other, s.Connect), rdma.ErrPeer)
	require.NoError(t, a.qp.Connect(b.qp.Endpoint(), s.Connect), "Connect after refused ones")
	require.NoError(t, b.qp.Connect(a.qp.Endpoint(), s.Connect))
	a.post(toward(a.request(rdma.Write, 1, 0, 16), b, 0))
	a.succeed(b, 1, rdma.Write)
	require.ErrorIs(t, a.qp.Connect(b.qp.Endpoint(), s.Connect), rdma.ErrInvalid,
		"the second Connect")
}

func errorUnconnected(t *testing.T, s *suite) {
	a, _ := s.pair(t, setup{separate: true})
	n, err := a.qp.PostSend([]rdma.SendRequest{a.request(rdma.Send, 1, 0, 0)})
	require.ErrorIs(t, err, rdma.ErrInvalid)
	require.Zero(t, n)
	for _, c := range []rdma.QueuePairConfig{
		{},
		{Type: rdma.ReliableConnected, SendDepth: 1, ReceiveDepth: 1},
		{Type: rdma.ReliableConnected, Completions: a.cq, ReceiveDepth: 1},
		{Type: rdma.ReliableConnected, Completions: a.cq, SendDepth: 1},
		{Type: rdma.ReliableConnected, Completions: a.cq, SendDepth: 1 << 30, ReceiveDepth: 1},
		{Type: 9, Completions: a.cq, SendDepth: 1, ReceiveDepth: 1},
	} {
		_, err := a.device.NewQueuePair(c)
		require.ErrorIs(t, err, rdma.ErrInvalid, "%+v", c)
	}
	_, err = a.device.NewCompletionQueue(0)
	require.ErrorIs(t, err, rdma.ErrInvalid)
	_, err = a.device.NewSharedReceiveQueue(-1)
	require.ErrorIs(t, err, rdma.ErrInvalid)
	_, err = a.device.Allocate(0, 0)
	require.ErrorIs(t, err, rdma.ErrInvalid)
}

func errorClosed(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{shared: true})
	require.NoError(t, a.qp.Close())
	_, err := a.qp.PostSend([]rdma.SendRequest{toward(a.request(rdma.Write, 1, 0, 16), b, 0)})
	require.ErrorIs(t, err, rdma.ErrClosed)
	require.NoError(t, a.srq.Close())
	_, err = a.srq.PostReceive(make([]rdma.ReceiveRequest, 1))
	require.ErrorIs(t, err, rdma.ErrClosed)
	require.NoError(t, a.cq.Close())
	_, err = a.cq.Poll(make([]rdma.Completion, 1))
	require.ErrorIs(t, err, rdma.ErrClosed)
	require.NoError(t, a.device.Close())
	require.NoError(t, a.device.Close())
	_, err = a.device.Allocate(4096, 0)
	require.ErrorIs(t, err, rdma.ErrClosed)
}
