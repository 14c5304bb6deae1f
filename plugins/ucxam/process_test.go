package ucxam

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// open opens a rank of this process with its worker.
func open(r fabrictest.Rank) (transport.Transport, *worker, error) {
	tr, made, err := r.Open(Driver{})
	w, _ := made.(*worker)
	return tr, w, err
}

func needUCX(t testing.TB) {
	if missing != "" {
		t.Skip(missing)
	}
}

// TestSizes sends payloads of 0 bytes to 16 MiB to another process and back: eager, by
// rendezvous and as UCX decides.
func TestSizes(t *testing.T) {
	needUCX(t)
	for name, options := range map[string]map[string]string{
		"posix":               {optionTLS: "posix,cma"},
		"posix without cma":   {optionTLS: "posix"},
		"posix by rendezvous": {optionTLS: "posix", optionThreshold: "1kb", optionEager: "512"},
		"posix eager":         {optionTLS: "posix", optionThreshold: "inf", optionEager: "0"},
		"sysv":                {optionTLS: "sysv"},
		"tcp":                 {optionTLS: "tcp"},
		"tcp by rendezvous":   {optionTLS: "tcp", optionThreshold: "1kb", optionEager: "512"},
	} {
		t.Run(name, func(t *testing.T) {
			fabrictest.Sizes(t, Driver{}, options, 0, 1, 7, 8, 63, 64, 65, 92, 93, 1000, 4096, 8100,
				8191, 8192, 8193,
				65535, 65536, 100000, 1<<20, 4<<20+3, 16<<20)
		})
	}
}

// TestSegmentsArePrivate requires that no other user, also of the user's group, may attach to UCX's
// System V segments.
func TestSegmentsArePrivate(t *testing.T) {
	needUCX(t)
	_, w, c := fabrictest.Connect(t, Driver{},
		fabrictest.Rank{Options: map[string]string{optionTLS: "sysv"}})
	fabrictest.Call(t, w, 1, []byte("segments exist"))
	require.Equal(t, transport.EventResponse, fabrictest.Next(t, w).Kind)
	text, err := os.ReadFile("/proc/sysvipc/shm")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(text)) {
		var key, id, mode, size, creator int
		if n, _ := fmt.Sscanf(line, "%d %d %o %d %d", &key, &id, &mode, &size, &creator); n != 5 {
			continue // the heading
		}
		if creator == os.Getpid() || creator == c.PID {
			found++
			require.Zero(t, mode&0o077, "mode %o of segment %d", mode, id)
		}
	}
	require.GreaterOrEqual(t, found, 2, "a segment of each process")
}

// TestKilledPeerIsReported kills the other process while it is idle, and during small and large
// messages.
func TestKilledPeerIsReported(t *testing.T) {
	needUCX(t)
	for _, lane := range []string{"posix", "sysv", "tcp"} {
		for _, size := range []int{fabrictest.Idle, 32, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", lane, size), func(t *testing.T) {
				fabrictest.Kill(t, Driver{}, map[string]string{optionTLS: lane}, size)
			})
		}
	}
}

// TestStoppedPeerIsNotLost: a stopped peer is silent but not lost.
func TestStoppedPeerIsNotLost(t *testing.T) {
	needUCX(t)
	for _, lane := range []string{"posix", "tcp"} {
		t.Run(lane, func(t *testing.T) {
			fabrictest.Pause(t, Driver{},
				map[string]string{optionTLS: lane, optionKeepalive: "20ms"}, 200*time.Millisecond)
		})
	}
}

// TestCloseIsReported: a peer that closes is reported at once, without the keepalive.
func TestCloseIsReported(t *testing.T) {
	needUCX(t)
	for _, lane := range []string{"posix", "tcp"} {
		t.Run(lane, func(t *testing.T) {
			fabrictest.Close(t, Driver{}, map[string]string{optionTLS: lane, optionKeepalive: "1h"})
		})
	}
}

// TestStandardOutputIsClean makes UCX log as much as it can.
func TestStandardOutputIsClean(t *testing.T) {
	needUCX(t)
	t.Setenv("UCX_LOG_LEVEL", "diag")
	t.Setenv("UCX_NO_SUCH_VARIABLE", "1") // UCX warns of it
	fabrictest.Close(t, Driver{}, map[string]string{optionTLS: "posix"})
}

// TestSignals: with UCX open, Go still handles signals.
func TestSignals(t *testing.T) {
	needUCX(t)
	tr, _, err := open(fabrictest.Rank{Options: map[string]string{optionTLS: "posix"},
		MaxPayload: 64})
	require.NoError(t, err)
	defer tr.Close()
	var none *worker
	require.Panics(t, func() { none.nonce++ })
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	defer signal.Stop(hangups)
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGHUP))
	require.Equal(t, unix.SIGHUP, <-hangups)
}
