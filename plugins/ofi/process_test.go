package ofi

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// open opens a rank of this process with its worker.
func open(r fabrictest.Rank) (transport.Transport, *worker, error) {
	tr, made, err := r.Open(Driver{})
	switch w := made.(type) {
	case *worker:
		return tr, w, err
	case waitingWorker:
		return tr, w.worker, err
	}
	return nil, nil, err
}

func needLibrary(t testing.TB) {
	if missing != "" {
		t.Skip(missing)
	}
}

// TestSizes sends payloads of 0 bytes to 16 MiB to another process and back: injected, plain and
// tagged.
func TestSizes(t *testing.T) {
	needLibrary(t)
	for name, options := range map[string]map[string]string{
		"shm":        {optionProvider: "shm"},
		"shm tagged": {optionProvider: "shm", optionEager: "64"},
		"tcp":        {optionProvider: "tcp"},
		"tcp plain":  {optionProvider: "tcp", optionEager: "1MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			fabrictest.Sizes(t, Driver{}, options, 0, 1, 7, 8, 47, 48, 49, 63, 64, 65, 112, 113,
				1000, 4079, 4080, 4081, 4096,
				8191, 8192, 8193, 65535, 65536, 100000, 1<<20, 4<<20+3, 16<<20)
		})
	}
}

// TestKilledPeerIsReported kills the other process while it is idle, and during small and large
// messages.
func TestKilledPeerIsReported(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		for _, size := range []int{fabrictest.Idle, 32, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", provider, size), func(t *testing.T) {
				fabrictest.Kill(t, Driver{}, map[string]string{optionProvider: provider}, size)
			})
		}
	}
}

// TestStoppedPeerIsNotLost: a stopped peer is silent but not lost.
func TestStoppedPeerIsNotLost(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			fabrictest.Pause(t, Driver{}, map[string]string{optionProvider: provider},
				100*time.Millisecond)
		})
	}
}

// TestCloseIsReported: the child ends when its peer closes.
func TestCloseIsReported(t *testing.T) {
	needLibrary(t)
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			fabrictest.Close(t, Driver{}, map[string]string{optionProvider: provider})
		})
	}
}

// TestCloseFollowsLargeMessages: a worker that closes tells so after what it has sent, which a
// plain message would overtake.
func TestCloseFollowsLargeMessages(t *testing.T) {
	for _, provider := range []string{"shm", "tcp"} {
		t.Run(provider, func(t *testing.T) {
			const calls, size = 8, 1 << 20
			r := fabrictest.Rank{Options: map[string]string{optionProvider: provider},
				MaxPayload: size, InFlight: calls}
			a, b := neighbours(t, r)
			for i := range calls {
				fabrictest.Call(t, a, transport.Token(i), make([]byte, size))
			}
			require.NoError(t, a.Close())
			for range calls {
				require.Equal(t, transport.EventRequest, fabrictest.Next(t, b).Kind)
			}
			require.Equal(t, transport.EventPeerLost, fabrictest.Next(t, b).Kind)
		})
	}
}

// neighbours returns two connected workers of this process, which have met.
func neighbours(t *testing.T, r fabrictest.Rank) (a, b *worker) {
	needLibrary(t)
	first, second := fabrictest.Pair(t, Driver{}, r)
	a, b = first.(*worker), second.(*worker)
	fabrictest.Call(t, a, 0, nil)
	e := meet(t, a, b)
	fabrictest.Post(t, b, transport.Op{Kind: transport.OpReply, Token: e.Token})
	require.Equal(t, transport.EventResponse, fabrictest.Next(t, a).Kind)
	return a, b
}

// meet polls until the first event of b: libfabric connects while both poll.
func meet(t *testing.T, a, b *worker) transport.Event {
	events := make([]transport.Event, 1)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		_, err := a.Poll(nil)
		require.NoError(t, err)
		n, err := b.Poll(events)
		require.NoError(t, err)
		if n == 1 {
			return events[0]
		}
	}
	t.Fatal("nothing arrived in 10 s")
	panic("unreachable")
}

// TestBusyWorkerHearsOfLoss: a worker whose polls always find something still reports the loss of a
// killed peer.
func TestBusyWorkerHearsOfLoss(t *testing.T) {
	r := fabrictest.Rank{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64,
		Peers: 2}
	needLibrary(t)
	_, opened, c := fabrictest.Connect(t, Driver{}, r)
	w := opened.(*worker)
	tr, busy, err := open(r)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	require.NoError(t, w.Connect(t.Context(), 1, busy.Address()))
	require.NoError(t, busy.Connect(t.Context(), 0, w.Address()))
	for token := range transport.Token(4) {
		fabrictest.Call(t, busy, token, nil)
	}
	e := meet(t, busy, w)
	c.Kill()
	deadline := time.Now().Add(10 * time.Second)
	for ; e.Kind != transport.EventPeerLost; e = fabrictest.Next(t, w) {
		require.True(t, time.Now().Before(deadline), "the loss was not reported in 10 s")
		fabrictest.Post(t, w, transport.Op{Kind: transport.OpReply, Peer: 1, Token: e.Token})
		fabrictest.Call(t, busy, fabrictest.Next(t, busy).Token, nil)
	}
	require.EqualValues(t, 0, e.Peer)
}

// TestBrokenQueueLosesPeers: errors of the completion queue itself, which are of no operation.
func TestBrokenQueueLosesPeers(t *testing.T) {
	needLibrary(t)
	_, opened, _ := fabrictest.Connect(t, Driver{},
		fabrictest.Rank{Options: map[string]string{optionProvider: "shm"}, MaxPayload: 64})
	w := opened.(*worker)
	fabrictest.Call(t, w, 1, nil)
	require.Equal(t, transport.EventResponse, fabrictest.Next(t, w).Kind)
	w.library.FailReads(int(unix.EIO))
	require.Equal(t, transport.EventPeerLost, fabrictest.Next(t, w).Kind)
	_, err := w.Post([]transport.Op{{Kind: transport.OpCall}})
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

// TestStandardOutputIsClean makes libfabric log as much as it can.
func TestStandardOutputIsClean(t *testing.T) {
	needLibrary(t)
	t.Setenv("FI_LOG_LEVEL", "trace")
	fabrictest.Close(t, Driver{}, map[string]string{optionProvider: "tcp"},
		func(c *exec.Cmd) { c.Stderr = nil })
}

// TestStart: a process starts without the sleeps of the libraries that libfabric loads, and they
// say nothing.
func TestStart(t *testing.T) {
	needLibrary(t)
	if _, err := os.Stat("/sys/class/infiniband"); err == nil {
		t.Skip("the kernel's RDMA core is loaded (/sys/class/infiniband), so these libraries may " +
			"compare clocks")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(output), "timebase")
	require.Less(t, cmd.ProcessState.SysUsage().(*syscall.Rusage).Nvcsw, int64(400),
		"sleeps; those of the libraries are about 1000")
}

// TestSignals: with provider shm open, Go still handles the signals that libfabric takes over, and
// libfabric's loaded libraries too.
func TestSignals(t *testing.T) {
	needLibrary(t)
	tr, _, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "shm"},
		MaxPayload: 64})
	require.NoError(t, err)
	defer tr.Close()
	var none *worker
	require.Panics(t, func() { none.nonce++ })
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, s)
		require.NoError(t, unix.Kill(os.Getpid(), s))
		require.Equal(t, s, <-signals)
		signal.Stop(signals)
	}
}

// TestSharedMemoryIsInItsDirectory: the host removes the directory of a rank that was killed, and
// peers find the file in another rank's directory.
func TestSharedMemoryIsInItsDirectory(t *testing.T) {
	needLibrary(t)
	var workers []*worker
	for range 2 {
		dir, err := os.MkdirTemp(shm.NamedDir, "ofitest-")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		t.Setenv(shm.EnvDir, dir)
		tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "shm"},
			MaxPayload: 64})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		workers = append(workers, w)
		files, err := filepath.Glob(filepath.Join(dir, "transportbench-ofi-*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
	}
	require.NoError(t, workers[0].Connect(t.Context(), 0, workers[1].Address()))
	require.NoError(t, workers[1].Connect(t.Context(), 0, workers[0].Address()))
	fabrictest.Call(t, workers[0], 7, []byte("from another directory"))
	require.NoError(t, workers[0].Flush())
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		n, err := workers[1].Poll(make([]transport.Event, 1))
		require.NoError(t, err)
		if n == 1 {
			return
		}
		_, err = workers[0].Poll(make([]transport.Event, 1))
		require.NoError(t, err)
	}
	t.Fatal("nothing arrived")
}
