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
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// make test-rdma sets these: the device to test (if it is not set, tests skip when there is
// no device), a second device that the first reaches over a wire, and a program that can
// cut and mend this wire and take the first device's interface down and up.
const (
	deviceVariable = "RDMA_TEST_DEVICE"
	peerVariable   = "RDMA_TEST_PEER"
	linkVariable   = "RDMA_TEST_LINK"
)

// An emulated guest may get no processor for long, and its peers must not be declared dead
// then. impatient still finds a dead peer within about two seconds; patient outlasts the
// programs that a test runs meanwhile.
var (
	impatient = []string{"timeout", "17", "retries", "2"}
	patient   = []string{"timeout", "18", "retries", "7"}
)

// verbs returns the options of the device under test.
func verbs(t *testing.T, more ...string) map[string]string {
	name := os.Getenv(deviceVariable)
	d, err := devices.Open(rdma.Options{Provider: rdma.Verbs, Device: name, GIDIndex: rdma.AnyGID})
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
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: o, Kill: closeQueuePairs,
		MaxPayload: 8 << 10, Timeout: 2 * time.Minute})
}

func TestVerbsClientServer(t *testing.T) { clientServer(t, 2, 2000, verbs(t)) }

func TestVerbsMesh(t *testing.T) { mesh(t, 3, 1000, verbs(t)) }

func TestVerbsMeshReads(t *testing.T) { mesh(t, 3, 500, verbs(t, "credit", "read")) }

func TestVerbsMeshTiny(t *testing.T) {
	mesh(t, 3, 500, verbs(t, "batches", "4", "send-depth", "8", "signal-interval", "4",
		"inline", "0"))
}

func TestVerbsKilled(t *testing.T) { killed(t, verbs(t, impatient...)) }

func TestVerbsKilledIdle(t *testing.T) { killedIdle(t, verbs(t, impatient...)) }

func TestVerbsMTU(t *testing.T) {
	for _, mtu := range []string{"256", "512", "1024", "2048", "4096"} {
		t.Run(mtu, func(t *testing.T) { clientServer(t, 1, 500, verbs(t, "mtu", mtu)) })
	}
}

// acrossWire returns the configurations of two ranks on two devices, and a function that
// changes the wire between them.
func acrossWire(t *testing.T, more ...string) (local, remote rankConfig, link func(state string)) {
	peer, program := os.Getenv(peerVariable), os.Getenv(linkVariable)
	local.Options, remote.Options = verbs(t, more...), verbs(t, more...)
	if peer == "" || program == "" {
		t.Skip("needs two devices and a wire that it may cut; run make test-rdma without DEVICE")
	}
	remote.Options["device"] = peer
	local.InFlight, local.Payload, local.Calls = 8, 512, -1
	remote.InFlight, remote.Payload, remote.Calls = 8, 512, -1
	return local, remote, func(state string) {
		output, err := exec.Command(program, state).CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
}

// TestVerbsWireCutAndMended checks that calls go on after the wire was cut for less time
// than the retries last.
func TestVerbsWireCutAndMended(t *testing.T) {
	local, remote, link := acrossWire(t, patient...)
	ranks := startRanks(t, local, remote)
	before := ranks[0].next("calls to be answered")
	link("cut")
	time.Sleep(300 * time.Millisecond)
	link("mend")
	after := ranks[0].until("calls after the wire is mended", func(r report) bool {
		return r.Answered > before.Answered+2000 || len(r.Lost) > 0
	})
	require.Empty(t, after.Lost)
}

// TestVerbsRetriesExhausted checks that both sides lose each other when the wire stays cut.
func TestVerbsRetriesExhausted(t *testing.T) {
	local, remote, link := acrossWire(t, impatient...)
	ranks := startRanks(t, local, remote)
	ranks[0].next("calls to be answered")
	link("cut")
	defer link("mend")
	for _, p := range ranks {
		p.until("the loss", func(r report) bool { return len(r.Lost) == 1 })
	}
}

// TestVerbsLinkDownAndUp takes the own interface down. That fails the sends of Soft-RoCE,
// so both sides lose their peer, and Open refuses a device whose port is down. When the
// link is up again, everything works.
func TestVerbsLinkDownAndUp(t *testing.T) {
	local, remote, link := acrossWire(t, impatient...)
	ranks := startRanks(t, local, remote)
	ranks[0].next("calls to be answered")
	link("down")
	up := sync.OnceFunc(func() { link("up") })
	defer up()
	for _, p := range ranks {
		p.until("the loss", func(r report) bool { return len(r.Lost) == 1 })
	}
	_, err := devices.Open(rdma.Options{Provider: rdma.Verbs, Device: local.Options["device"],
		GIDIndex: rdma.AnyGID})
	require.ErrorIs(t, err, rdma.ErrUnavailable)
	require.ErrorContains(t, err, "port 1 is down")
	up()
	startRanks(t, local, remote)[0].next("calls to be answered again")
}

// TestVerbsBadInput checks that errors name what is wrong.
func TestVerbsBadInput(t *testing.T) {
	for want, o := range map[string]map[string]string{
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
		_, err = Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 1,
			MaxPayload: 64, Options: options})
		require.ErrorContains(t, err, want)
	}
}

// TestVerbsFloors checks that both floors of verbs have the run's payloads and messages in flight.
func TestVerbsFloors(t *testing.T) {
	a, b := connected(t, transport.Config{InFlight: 8, MaxPayload: 8 << 10}, verbs(t))
	for _, probe := range []transport.Probe{
		{Kind: transport.ProbeMedium, Forth: 16, Back: 300},
		{Kind: transport.ProbeMedium, Forth: 8 << 10},
		{Kind: transport.ProbeRate, Forth: 16, Back: 300, InFlight: 1},
		{Kind: transport.ProbeRate, Forth: 16, Back: 300, InFlight: 8},
		{Kind: transport.ProbeRate, Back: 8 << 10, InFlight: 1000},
	} {
		probe.Duration = 20 * time.Millisecond
		var far sync.WaitGroup
		far.Go(func() {
			f, err := b.Probe(t.Context(), 0, probe)
			require.NoError(t, err)
			require.Zero(t, f)
		})
		lead := probe
		lead.Initiate = true
		f, err := a.Probe(t.Context(), 0, lead)
		far.Wait()
		require.NoError(t, err)
		t.Logf("%+v: %+v", probe, f)
		require.Positive(t, f.Samples)
		if probe.Kind == transport.ProbeMedium {
			require.Equal(t, "RDMA write ping-pong", f.Name)
			require.Positive(t, f.RoundTrip)
		} else {
			require.Equal(t, "RDMA write stream", f.Name)
			require.Positive(t, f.PerOp)
		}
		a, b = b, a
	}
}
