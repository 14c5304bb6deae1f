package tcpx

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// openWith opens the transport with some options.
func openWith(options map[string]string) (transport.Transport, error) {
	values, err := transport.ParseOptions(schema, options)
	if err != nil {
		return nil, err
	}
	return Driver{}.Open(context.Background(), transport.Config{Workers: 1, Peers: 2, InFlight: 4,
		MaxPayload: 1 << 20, Options: values})
}

// TestRefusals: opening refuses bad options, before it makes a socket, and names the option.
func TestRefusals(t *testing.T) {
	for option, c := range map[string]struct {
		options map[string]string
		problem string
	}{
		"chunk":  {map[string]string{"chunk": "0"}, "0 bytes make no progress"},
		"chunk ": {map[string]string{"chunk": "8MiB"}, "is out of range (0 to 4MiB)"},
		"chunk  ": {map[string]string{"chunk": "5000"},
			"not a multiple of the page size"},
		"request": {map[string]string{"request": "256KiB"}, "less than the chunk"},
		"request ": {map[string]string{"request": "768KiB"},
			"not a multiple of the chunk"},
		"send-window": {map[string]string{"send-window": "17"},
			"17 is out of range (1 to 16)"},
		"send-window ": {map[string]string{"send-window": "0"},
			"0 is out of range (1 to 16)"},
		"receive-window": {map[string]string{"receive-window": "17"},
			"17 is out of range (1 to 16)"},
		"sockets": {map[string]string{"sockets": "17"}, "17 is out of range (1 to 16)"},
		"threads": {map[string]string{"threads": "3", "sockets": "2"},
			"3 is more than the number of data sockets, 2"},
		"threads ": {map[string]string{"threads": "17"}, "17 is out of range (0 to 16)"},
		"threads  ": {map[string]string{"threads": "1", "mode": "devmem"},
			"in mode devmem only the polling thread can receive"},
		"congestion-control": {map[string]string{"congestion-control": "cubik"},
			`did you mean "cubic"?`},
		"unpack": {map[string]string{"unpack": "none"},
			"none leaves payloads in bounce memory"},
		"address": {map[string]string{"address": "localhost"},
			"neither an IP address nor a network"},
		"more-addresses": {map[string]string{"more-addresses": "127.0.0.2+"},
			"neither an IP address nor a network"},
		"more-addresses ": {map[string]string{"more-addresses": "127.0.0.2+127.0.0.1",
			"sockets": "4"}, "127.0.0.1 is there twice"},
		"more-addresses  ": {map[string]string{"more-addresses": "::1", "sockets": "4"},
			"are not of one kind"},
		"more-addresses   ": {map[string]string{"more-addresses": "127.0.0.2"},
			"2 addresses for 1 data sockets; set sockets to 2 or more"},
		"more-addresses    ": {map[string]string{"more-addresses": "127.0.0.2", "sockets": "2",
			"mode": "devmem"}, "the bounce memory is that of one NIC"},
		"data-port": {map[string]string{"data-port": "65536"},
			"is out of range (0 to 65535)"},
		"mode": {map[string]string{"mode": "hots"}, "is not one of"},
		"fault": {map[string]string{"fault": faultEarlyConsume},
			"early-consume needs a GPU that unpacks, as with mode=gpu, and this is mode=host"},
		"fault ":  {map[string]string{"fault": faultFreshStreams}, "needs a GPU that unpacks"},
		"fault  ": {map[string]string{"fault": faultEarlySend}, "use mode=gpu and send-memory"},
	} {
		_, err := openWith(c.options)
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong, option)
		require.Contains(t, c.options, wrong.Option, option)
		require.Contains(t, wrong.Problem, c.problem)
	}
}

// TestAddressElsewhere: the first worker, which listens, refuses an address that this host does
// not have.
func TestAddressElsewhere(t *testing.T) {
	tr, err := openWith(map[string]string{"address": "192.0.2.1"})
	require.NoError(t, err)
	defer tr.Close()
	_, err = tr.NewWorker(0)
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "address", wrong.Option)
}

func TestLockedMemory(t *testing.T) {
	s := testSettings(t, map[string]string{"zero-copy": "on"})
	err := s.checkLocked(2, 8<<20, false)
	var wrong *transport.OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "zero-copy", wrong.Option)
	require.Contains(t, wrong.Problem, "ulimit -l")
	require.NoError(t, s.checkLocked(2, 8<<20, true), "with CAP_IPC_LOCK")
	require.NoError(t, s.checkLocked(1, 12*512<<10, false))
	s.zeroCopy = zeroCopyOff
	require.NoError(t, s.checkLocked(2, 0, false))
}

// TestAddressDoesNotFit: connecting fails if the two sides have different options.
func TestAddressDoesNotFit(t *testing.T) {
	open := func(more map[string]string) *worker {
		tr, err := openWith(more)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tr.Close()) })
		w, err := tr.NewWorker(0)
		require.NoError(t, err)
		return w.(*worker)
	}
	a := open(nil)
	for option, value := range map[string]string{"sockets": "2", "chunk": "256KiB",
		"request": "1MiB"} {
		b := open(map[string]string{option: value})
		err := b.Connect(context.Background(), 0, a.Address())
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, option, wrong.Option)
		require.Contains(t, wrong.Problem, "the peer has announced")
	}
	for _, address := range []string{"", "{}", "null", `{"nonce":"AAAA","at":"127.0.0.1:1"}`,
		string(a.Address()[:20])} {
		require.ErrorContains(t, a.Connect(context.Background(), 0, []byte(address)),
			"not an address")
	}
	require.ErrorContains(t, a.Connect(context.Background(), 0, a.Address()), "the worker's own")
}

// TestCongestionControlIsPinned: the sockets have the congestion control of the option.
func TestCongestionControlIsPinned(t *testing.T) {
	for _, control := range []string{"cubic", "reno"} {
		if sock.CheckCongestion("congestion-control", control) != nil {
			continue
		}
		s := testSettings(t, map[string]string{"congestion-control": control})
		near, far, err := s.sock.Pairs(1)
		require.NoError(t, err)
		for _, fd := range append(near, far...) {
			got, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			require.NoError(t, err)
			require.Equal(t, control, got)
		}
		require.NoError(t, sock.CloseAll(near))
		require.NoError(t, sock.CloseAll(far))
	}
	tr, err := openWith(map[string]string{"congestion-control": "reno"})
	require.NoError(t, err)
	require.Equal(t, "reno", tr.Properties().Notes["congestion_control"])
	require.NoError(t, tr.Close())
}
