package devices_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// echoRole is a child that sends its endpoint, receives the parent's, and writes back what is
// written to it.
const echoRole = "echo"

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{echoRole: serveChild}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// reach is what the two sides exchange.
type reach struct {
	Endpoint rdma.Endpoint     `json:"endpoint"`
	Region   rdma.RemoteRegion `json:"region"`
}

// end is one side: a queue pair with memory and receives.
type end struct {
	device rdma.Device
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	region *rdma.Region
}

func newEnd() (*end, error) {
	d, err := devices.Open(rdma.Options{Provider: rdma.Soft})
	if err != nil {
		return nil, err
	}
	e := &end{device: d}
	if e.cq, err = d.NewCompletionQueue(64); err != nil {
		return nil, err
	}
	e.qp, err = d.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected, Completions: e.cq,
		SendDepth: 16, ReceiveDepth: 16})
	if err != nil {
		return nil, err
	}
	if e.region, err = d.Allocate(1<<20, rdma.RemoteRead|rdma.RemoteWrite); err != nil {
		return nil, err
	}
	_, err = e.qp.PostReceive(make([]rdma.ReceiveRequest, 8))
	return e, err
}

func (e *end) reach() reach { return reach{e.qp.Endpoint(), e.region.Remote} }

func serveChild(p *fabrictest.Parent) error {
	e, err := newEnd()
	if err != nil {
		return err
	}
	if err := p.Send(e.reach()); err != nil {
		return err
	}
	var remote reach
	if err := p.Receive(&remote); err != nil {
		return err
	}
	if err := e.qp.Connect(remote.Endpoint, rdma.ConnectOptions{}); err != nil {
		return err
	}
	if err := p.Send(true); err != nil {
		return err
	}
	completions := make([]rdma.Completion, 8)
	for {
		n, err := e.cq.Poll(completions)
		if err != nil {
			return err
		}
		for _, c := range completions[:n] {
			if c.Status != rdma.StatusOK {
				return fmt.Errorf("completion of %d: %v", c.ID, c.Status)
			}
			if c.Opcode != rdma.ReceiveWriteImmediate {
				continue
			}
			if _, err := e.qp.PostReceive(make([]rdma.ReceiveRequest, 1)); err != nil {
				return err
			}
			// The immediate is the number of bytes.
			r := rdma.SendRequest{Opcode: rdma.WriteWithImmediate, Flags: rdma.Signaled,
				Immediate: c.Immediate, Length: c.Immediate,
				Local: e.region.Address, LocalKey: e.region.LocalKey, Remote: remote.Region.Address,
				RemoteKey: remote.Region.Key}
			if _, err := e.qp.PostSend([]rdma.SendRequest{r}); err != nil {
				return err
			}
		}
	}
}

// startChild starts a child and connects to it.
func startChild(t *testing.T) (e *end, remote reach, child *fabrictest.Child) {
	e, err := newEnd()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.device.Close()) })
	child = fabrictest.Start(t, echoRole, nil)
	child.Receive(&remote)
	require.NoError(t, e.qp.Connect(remote.Endpoint, rdma.ConnectOptions{}))
	child.Send(e.reach())
	var connected bool
	child.Receive(&connected)
	return e, remote, child
}

// next waits for a completion.
func (e *end) next(t *testing.T) rdma.Completion {
	var c [1]rdma.Completion
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		n, err := e.cq.Poll(c[:])
		require.NoError(t, err)
		if n == 1 {
			return c[0]
		}
	}
	require.FailNow(t, "no completion in 30 s")
	panic("unreachable")
}

func TestBetweenProcesses(t *testing.T) {
	e, remote, child := startChild(t)
	write := rdma.SendRequest{Opcode: rdma.WriteWithImmediate, Flags: rdma.Signaled,
		Local:    e.region.Address,
		LocalKey: e.region.LocalKey, Remote: remote.Region.Address, RemoteKey: remote.Region.Key}
	for round, n := range []int{1, 40, 360, 361, 5000, 1 << 19} {
		for i := range n {
			e.region.Bytes[i] = byte(i*7 + round)
		}
		write.Length, write.Immediate = uint32(n), uint32(n)
		_, err := e.qp.PostSend([]rdma.SendRequest{write})
		require.NoError(t, err)
		for back := false; !back; {
			c := e.next(t)
			require.Equal(t, rdma.StatusOK, c.Status)
			if c.Opcode == rdma.ReceiveWriteImmediate {
				back = true
				require.EqualValues(t, n, c.Length)
				_, err := e.qp.PostReceive(make([]rdma.ReceiveRequest, 1))
				require.NoError(t, err)
			}
		}
		for i := range n {
			require.Equal(t, byte(i*7+round), e.region.Bytes[i])
		}
	}

	child.Kill()
	for {
		_, err := e.qp.PostSend([]rdma.SendRequest{write})
		require.NoError(t, err)
		c := e.next(t)
		if c.Status == rdma.StatusOK {
			continue // the death is not detected yet
		}
		require.Equal(t, rdma.StatusRetryExceeded, c.Status, "%v", c.Status)
		return
	}
}
