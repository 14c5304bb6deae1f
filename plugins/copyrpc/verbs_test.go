//go:build ibverbs

package copyrpc

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// What make test-rdma says: the device to test, without which a test that finds none
// is skipped; a second one that the first reaches over a wire; and a program that can
// cut and mend this wire and take the first one's interface down and up.
const (
	deviceVariable = "RDMA_TEST_DEVICE"
	peerVariable   = "RDMA_TEST_PEER"
	linkVariable   = "RDMA_TEST_LINK"
)

// An emulated guest may be without a processor for long, and a peer that does not answer
// must not be taken for dead then. impatient is what finds a dead one in two seconds all
// the same, patient what outlasts programs that are run meanwhile.
var (
	impatient = []string{"timeout", "17", "retries", "2"}
	patient   = []string{"timeout", "18", "retries", "7"}
)

// verbs are the options of the device under test.
func verbs(t *testing.T, more ...string) map[string]string {
	name := os.Getenv(deviceVariable)
	d, err := rdma.Open(rdma.Options{Provider: rdma.Verbs, Device: name, GIDIndex: rdma.AnyGID})
	if name == "" && errors.Is(err, rdma.ErrUnavailable) {
		t.Skipf("%v; make test-rdma runs it on Soft-RoCE", err)
	}
	require.NoError(t, err)
	require.NoError(t, d.Close())
	o := map[string]string{"provider": "verbs", "device": name, "timeout": "17"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

func TestVerbsConformance(t *testing.T) {
	o := verbs(t, impatient...)
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: o, Kill: kill, MaxPayload: 8 << 10, Timeout: 2 * time.Minute})
}

func TestVerbsClientServer(t *testing.T) { clientServer(t, 2, 2000, verbs(t)) }

func TestVerbsMesh(t *testing.T) { mesh(t, 3, 1000, verbs(t)) }

func TestVerbsMeshReads(t *testing.T) { mesh(t, 3, 500, verbs(t, "credit", "read")) }

func TestVerbsMeshTiny(t *testing.T) {
	mesh(t, 3, 500, verbs(t, "batches", "4", "send-depth", "8", "signal-interval", "4", "inline", "0"))
}

func TestVerbsKilled(t *testing.T) { killed(t, verbs(t, impatient...)) }

func TestVerbsKilledIdle(t *testing.T) { killedIdle(t, verbs(t, impatient...)) }

func TestVerbsMTU(t *testing.T) {
	for _, mtu := range []string{"256", "512", "1024", "2048", "4096"} {
		t.Run(mtu, func(t *testing.T) { clientServer(t, 1, 500, verbs(t, "mtu", mtu)) })
	}
}

// acrossWire is options of two ranks on two devices.
func acrossWire(t *testing.T, more ...string) (here, there rankConfig, link func(state string)) {
	peer, program := os.Getenv(peerVariable), os.Getenv(linkVariable)
	here.Options, there.Options = verbs(t, more...), verbs(t, more...)
	if peer == "" || program == "" {
		t.Skip("needs two devices and a wire that it may take down; make test-rdma without DEVICE has them")
	}
	there.Options["device"] = peer
	here.InFlight, here.Payload, here.Calls = 8, 512, -1
	there.InFlight, there.Payload, there.Calls = 8, 512, -1
	return here, there, func(state string) {
		output, err := exec.Command(program, state).CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
}

// TestVerbsWireCutAndMended: calls go on after the wire was cut for less than the
// retries last.
func TestVerbsWireCutAndMended(t *testing.T) {
	here, there, link := acrossWire(t, patient...)
	ranks := startRanks(t, here, there)
	before := ranks[0].next("calls to be answered")
	link("cut")
	time.Sleep(300 * time.Millisecond)
	link("mend")
	after := ranks[0].until("calls after the wire is mended", func(r report) bool {
		return r.Answered > before.Answered+2000 || len(r.Lost) > 0
	})
	require.Empty(t, after.Lost)
}

// TestVerbsRetriesExhausted: a wire that stays cut costs the peer.
func TestVerbsRetriesExhausted(t *testing.T) {
	here, there, link := acrossWire(t, impatient...)
	ranks := startRanks(t, here, there)
	ranks[0].next("calls to be answered")
	link("cut")
	defer link("mend")
	for _, p := range ranks {
		p.until("the loss to be told", func(r report) bool { return len(r.Lost) == 1 })
	}
}

// TestVerbsLinkDownAndUp: taking the own interface down fails what Soft-RoCE is about
// to send, and so costs both sides their peer; a device whose port is down is refused;
// and when the link is up again so is everything.
func TestVerbsLinkDownAndUp(t *testing.T) {
	here, there, link := acrossWire(t, impatient...)
	ranks := startRanks(t, here, there)
	ranks[0].next("calls to be answered")
	link("down")
	up := sync.OnceFunc(func() { link("up") })
	defer up()
	for _, p := range ranks {
		p.until("the loss to be told", func(r report) bool { return len(r.Lost) == 1 })
	}
	_, err := rdma.Open(rdma.Options{Provider: rdma.Verbs, Device: here.Options["device"], GIDIndex: rdma.AnyGID})
	require.ErrorIs(t, err, rdma.ErrUnavailable)
	require.ErrorContains(t, err, "port 1 is down")
	up()
	startRanks(t, here, there)[0].next("calls to be answered again")
}

// TestVerbsBadInput: what is wrong is named.
func TestVerbsBadInput(t *testing.T) {
	for says, o := range map[string]map[string]string{
		`no RDMA device "nosuch0"; there is`: {"device": "nosuch0"},
		"has no GID of index 999":            {"gid-index": "999"},
		"has no port 99":                     {"port": "99"},
		"grants":                             {"inline": "4096"},
	} {
		raw := verbs(t)
		for name, value := range o {
			raw[name] = value
		}
		options, err := transport.ParseOptions(schema, raw)
		require.NoError(t, err)
		_, err = Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: 64, Options: options})
		require.ErrorContains(t, err, says)
	}
}
