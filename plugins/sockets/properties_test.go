package sockets

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// TestProperties checks the provider and the medium of each network.
func TestProperties(t *testing.T) {
	for network, medium := range map[string]string{"tcp": transport.MediumTCP,
		"unix": transport.MediumUnix, "vsock": "vsock"} {
		t.Run(network, func(t *testing.T) {
			p := transporttest.Properties(t, Driver{}, map[string]string{"network": network})
			require.Equal(t, network, p.Provider)
			require.Equal(t, medium, p.Medium)
			_, pinned := p.Notes["congestion_control"]
			require.Equal(t, network == "tcp", pinned)
		})
	}
}

// TestRefusedOptions: errors name the option, the value and the remedy.
func TestRefusedOptions(t *testing.T) {
	for _, c := range []struct {
		options map[string]string
		workers int
		option  string
		says    string
	}{
		{map[string]string{"network": "uinx"}, 1, "network", "is not one of tcp, unix, vsock"},
		{map[string]string{"engine": "epol"}, 1, "engine", "is not one of epoll, uring"},
		{map[string]string{"address": "10.0.0.300"}, 1, "address",
			"neither an IP address nor a network"},
		{map[string]string{"port": "65534"}, 3, "port", "use 65533 or less"},
		{map[string]string{"network": "unix", "port": "5000"}, 1, "port",
			"Unix sockets have no ports"},
		{map[string]string{"network": "unix", "address": "10.0.0.0/24"}, 1, "address",
			`"10.0.0.0/24" has no effect with network=unix`},
		{map[string]string{"network": "unix", "congestion-control": "bbr"}, 1, "congestion-control",
			"leave it out, or use network=tcp"},
		{map[string]string{"network": "vsock", "address": "10.0.0.1"}, 1, "address",
			"has no effect with network=vsock"},
		{map[string]string{"network": "unix", "cid": "3"}, 1, "cid",
			"leave it out, or use network=vsock"},
		{map[string]string{"cid": "3"}, 1, "cid", "3 has no effect with network=tcp"},
		{map[string]string{"congestion-control": "cubik"}, 1, "congestion-control",
			"the kernel refuses"},
	} {
		values, err := transport.ParseOptions(schema, c.options)
		if err == nil {
			_, err = Driver{}.Open(context.Background(),
				transport.Config{Workers: c.workers, Options: values})
		}
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong, "%v", c.options)
		require.Equal(t, c.option, wrong.Option)
		require.Contains(t, wrong.Problem, c.says)
	}
}

// TestAddresses: an address that does not fit is refused.
func TestAddresses(t *testing.T) {
	w := newTestWorker(t, nil)
	change := func(f func(a *address)) []byte {
		var a address
		require.NoError(t, json.Unmarshal(w.Address(), &a))
		a.Nonce[0] ^= 1
		f(&a)
		b, err := json.Marshal(a)
		require.NoError(t, err)
		return b
	}
	for says, encoded := range map[string][]byte{
		"not an address of this transport": []byte("{}"),
		"the worker's own":                 w.Address(),
		"set the same on all ranks":        change(func(a *address) { a.Network = "unix" }),
		"opened for 5 calls in flight":     change(func(a *address) { a.InFlight = 5 }),
		"opened for payloads of 7 bytes":   change(func(a *address) { a.Payload = 7 }),
		"not an address of network tcp":    change(func(a *address) { a.At = "@x" }),
		"one is IPv4, the other IPv6":      change(func(a *address) { a.At = "[::1]:5" }),
	} {
		require.ErrorContains(t, w.Connect(context.Background(), 0, encoded), says)
	}
}

// TestConnectAfterFailure: a Connect that failed has taken neither the number of the peer nor its
// place.
func TestConnectAfterFailure(t *testing.T) {
	w := newTestWorker(t, map[string]string{"network": "unix"})
	var a address
	require.NoError(t, json.Unmarshal(w.Address(), &a))
	for i := range a.Nonce {
		a.Nonce[i] = 0xff // the largest: the worker is to dial
	}
	a.At = unixPrefix + strings.Repeat("x", 200) // longer than the kernel takes
	encoded, err := json.Marshal(a)
	require.NoError(t, err)
	require.ErrorContains(t, w.Connect(context.Background(), 0, encoded), "connect to "+unixPrefix)
	expect(t, w, 0)
}

// TestNetworkAddresses: what a network announces it can parse, and what is not its own it refuses.
func TestNetworkAddresses(t *testing.T) {
	s := &settings{cid: 7}
	for name, own := range map[string]unix.Sockaddr{
		"tcp":   &unix.SockaddrInet4{Port: 80, Addr: [4]byte{10, 0, 0, 1}},
		"unix":  &unix.SockaddrUnix{Name: unixPrefix + "1-ab"},
		"vsock": &unix.SockaddrVM{CID: 7, Port: 1 << 31},
	} {
		n := networkNamed(name)
		text, err := n.announce(s, own)
		require.NoError(t, err)
		parsed, err := n.parse(text)
		require.NoError(t, err)
		require.Equal(t, own, parsed)
		for _, wrong := range []string{"", ":", "1", "/tmp/socket", "@other", "1:x", "x:1",
			"4294967296:1"} {
			_, err := n.parse(wrong)
			require.Error(t, err, "%s: %q", name, wrong)
		}
	}
}

// TestVsockWithoutCarrier: a vsock listener has an address, and a peer on a machine that carries
// vsock nowhere is unavailable with the remedy.
func TestVsockWithoutCarrier(t *testing.T) {
	transporttest.Properties(t, Driver{}, map[string]string{"network": "vsock"}) // or skip
	w := newTestWorker(t, map[string]string{"network": "vsock", "port": "5999"})
	require.Contains(t, string(w.Address()), ":5999")
	err := dialError("3:5999", unix.ENODEV)
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err,
		"context ID 3; for ranks on one machine load the module vsock_loopback")
}

// TestPortTaken: the error names the option and the remedy.
func TestPortTaken(t *testing.T) {
	w := newTestWorker(t, nil)
	var a address
	require.NoError(t, json.Unmarshal(w.Address(), &a))
	at, err := parseIP(a.At)
	require.NoError(t, err)
	require.ErrorContains(t, w.settings.listenError(at, unix.EADDRINUSE),
		"is taken; use another one, or 0 for any")
}

func TestSyscalls(t *testing.T) {
	transporttest.CheckSyscalls(t, transporttest.Suite{Driver: Driver{}}, "sendto", "recvfrom",
		"sendmsg", "epoll_pwait", "ppoll")
}
