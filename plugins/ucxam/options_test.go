package ucxam

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// openWith opens an endpoint with one worker and raw options.
func openWith(t *testing.T, raw map[string]string) (transport.Transport, transport.Worker, error) {
	needUCX(t)
	options, err := transport.ParseOptions(schema, raw)
	require.NoError(t, err)
	tr, err := Driver{}.Open(context.Background(),
		transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 4096, Options: options})
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	w, err := tr.NewWorker(0)
	return tr, w, err
}

// TestBadInput: an option that UCX refuses gives an error in one line, which names the option
// and contains UCX's message.
func TestBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		raw    map[string]string
		option string // "" if the error is ErrUnavailable without an option
		words  []string
	}{
		"unknown transport": {map[string]string{optionTLS: "bogus"}, optionTLS,
			[]string{"UCX_TLS=bogus", "No such device"}},
		"one unknown transport": {map[string]string{optionTLS: "posix,bogus"}, optionTLS,
			[]string{`"bogus"`}},
		"unknown device": {map[string]string{optionTLS: "tcp", optionDevices: "nodev0"},
			optionDevices, []string{"nodev0", "No such device"}},
		"one unknown device": {map[string]string{optionDevices: "lo,nodev0"}, optionDevices,
			[]string{`"nodev0"`}},
		"device of no transport": {map[string]string{optionTLS: "posix", optionDevices: "lo"},
			optionDevices, []string{`"lo"`, "UCX_TLS=posix"}},
		"self cannot tell of loss": {map[string]string{optionTLS: "self,cma"}, optionTLS,
			[]string{"Destination is unreachable"}},
		"threshold": {map[string]string{optionThreshold: "lots"}, optionThreshold,
			[]string{"UCX_RNDV_THRESH=lots", "Invalid parameter"}},
		"unknown variable": {map[string]string{optionVariables: "UCX_POSIX_FIFO_SIZ=64"},
			optionVariables, []string{"UCX_POSIX_FIFO_SIZ", `did you mean "POSIX_FIFO_SIZE"`}},
		"no variable": {map[string]string{optionVariables: "POSIX"}, optionVariables,
			[]string{"UCX_NAME=value"}},
		"no value": {map[string]string{optionVariables: "UCX_TLS="},
			optionVariables, []string{"UCX_TLS has no value"}},
		"set twice": {map[string]string{optionTLS: "posix",
			optionVariables: "UCX_TLS=tcp"}, optionTLS, []string{"UCX_TLS as well"}},
		"does not start": {map[string]string{optionTLS: "posix",
			optionVariables: "UCX_POSIX_FIFO_SIZE=3"}, "", []string{"Invalid parameter"}},
		"another lane": {
			map[string]string{optionTLS: "tcp,posix", optionLane: "posix",
				optionVariables: "UCX_POSIX_ERROR_HANDLING=n"},
			optionLane, []string{"asked for posix", "UCX chose tcp/"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := openWith(t, c.raw)
			require.Error(t, err)
			var op *transport.OpError
			require.ErrorAs(t, err, &op)
			require.NotContains(t, err.Error(), "\n")
			for _, word := range c.words {
				require.ErrorContains(t, err, word)
			}
			var option *transport.OptionError
			if c.option == "" {
				require.ErrorIs(t, err, transport.ErrUnavailable)
				require.NotErrorAs(t, err, &option)
				return
			}
			require.ErrorAs(t, err, &option)
			require.Equal(t, c.option, option.Option)
		})
	}
}

// TestProperties: they have the lane, the version, and every variable that anyone has set.
func TestProperties(t *testing.T) {
	t.Setenv("UCX_TCP_MAX_POLL", "8")
	tr, _, err := openWith(t, map[string]string{optionTLS: "tcp", optionDevices: "lo",
		optionVariables: "UCX_TCP_TX_SEG_SIZE=16k,UCX_TCP_RX_SEG_SIZE=32k"})
	require.NoError(t, err)
	p := tr.Properties()
	require.Equal(t, "tcp", p.Provider)
	require.Regexp(t, `^1\.\d+\.\d+$`, p.Libraries["ucx"])
	for name, value := range map[string]string{
		"lane": "tcp/lo", "UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo", "UCX_TCP_MAX_POLL": "8",
		"UCX_TCP_TX_SEG_SIZE": "16k", "UCX_TCP_RX_SEG_SIZE": "32k",
		"UCX_KEEPALIVE_INTERVAL": "200000us",
		"UCX_LOG_FILE":           "stderr", "UCX_HANDLE_ERRORS": "none",
	} {
		require.Equal(t, value, p.Notes[name], name)
	}
}

// TestSharedMemoryIsChosen: by default, processes of one host use shared memory, although UCX
// must report lost peers.
func TestSharedMemoryIsChosen(t *testing.T) {
	tr, _, err := openWith(t, nil)
	require.NoError(t, err)
	require.Contains(t, []string{"posix", "sysv"}, tr.Properties().Provider)
}

// TestSharedMemoryIsNotChosenBetweenMachines: unless somebody asks for it; the command then refuses
// it.
func TestSharedMemoryIsNotChosenBetweenMachines(t *testing.T) {
	needUCX(t)
	options, err := transport.ParseOptions(schema, map[string]string{optionDevices: "lo"})
	require.NoError(t, err)
	cfg := transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: 32, Options: options,
		Crosses: true}
	tr, err := Driver{}.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, transport.MediumTCP, tr.Properties().Medium)
	require.Equal(t, "^sm", tr.Properties().Notes["UCX_TLS"])
	require.NoError(t, tr.Close())
	t.Setenv("UCX_TLS", "posix")
	cfg.Options, err = transport.ParseOptions(schema, nil)
	require.NoError(t, err)
	tr, err = Driver{}.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, transport.MediumMemory, tr.Properties().Medium)
	require.NoError(t, tr.Close())
}

// TestSharedMemoryIsInItsDirectory: the host removes the directory of a rank that was killed. UCX
// names its files at random, and with this variable it keeps the names; peers open them by their
// paths.
func TestSharedMemoryIsInItsDirectory(t *testing.T) {
	var workers []transport.Worker
	for i := range 2 {
		// Equally long: UCX 1.13 copies as many bytes of a peer's directory as its own has.
		dir := fmt.Sprintf("%s/ucxamtest-%d-%d", shm.NamedDir, os.Getpid(), i)
		require.NoError(t, os.Mkdir(dir, 0o700))
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		t.Setenv(shm.EnvDir, dir)
		_, w, err := openWith(t, map[string]string{optionTLS: "posix",
			optionVariables: "UCX_POSIX_USE_PROC_LINK=n"})
		require.NoError(t, err)
		workers = append(workers, w)
		files, err := filepath.Glob(filepath.Join(dir, "ucx_shm_posix_*"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
	}
	require.NoError(t, workers[0].Connect(t.Context(), 0, workers[1].Address()),
		"with another directory")
}

// TestSelf: UCX's transport self connects a worker to itself only.
func TestSelf(t *testing.T) {
	_, w, err := openWith(t, map[string]string{optionTLS: "self", optionErrors: errorsNone})
	require.NoError(t, err)
	require.NoError(t, w.Connect(t.Context(), 0, w.Address()))
	require.Equal(t, "self", w.(*worker).Peers.ByID[0].Own.(*peer).lane.transport)
	events := make([]transport.Event, 4)
	for i, size := range []int{0, 1, 64, 4096} {
		fabrictest.Call(t, w, transport.Token(i), make([]byte, size))
		e := fabrictest.Next(t, w)
		require.Equal(t, transport.EventRequest, e.Kind)
		require.Len(t, e.Payload, size)
		_, err = w.Post([]transport.Op{{Kind: transport.OpReply, Token: e.Token,
			Payload: e.Payload}})
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		e = fabrictest.Next(t, w)
		require.Equal(t, transport.EventResponse, e.Kind)
		require.EqualValues(t, i, e.Token)
	}
	n, err := w.Poll(events)
	require.NoError(t, err)
	require.Zero(t, n)

	_, other, err := openWith(t, map[string]string{optionTLS: "self", optionErrors: errorsNone})
	require.NoError(t, err)
	err = other.Connect(t.Context(), 0, w.Address())
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "Destination is unreachable")
}

func TestAnotherLaneIsRefused(t *testing.T) {
	tr, w, err := openWith(t, map[string]string{optionTLS: "tcp"})
	require.NoError(t, err)
	tr.(*endpoint).lane = lane{"rc_mlx5", "mlx5_0:1"} // as on another host
	_, other, err := openWith(t, map[string]string{optionTLS: "tcp"})
	require.NoError(t, err)
	err = w.Connect(t.Context(), 0, other.Address())
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "rc_mlx5/mlx5_0:1")
	require.ErrorContains(t, err, "tcp/")
	n, err := w.Poll(make([]transport.Event, 1))
	require.NoError(t, err)
	require.Zero(t, n, "a peer that was never connected is not reported lost")
}

func TestParseVariables(t *testing.T) {
	given, err := parseVariables(" UCX_TLS=a,b , UCX_X=1,UCX_Y=p=q")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"TLS": "a,b", "X": "1", "Y": "p=q"}, given)
	given, err = parseVariables("")
	require.NoError(t, err)
	require.Empty(t, given)
}

func TestLaneOf(t *testing.T) {
	l, err := laneOf(`
#               peer: <no debug data>
#                 lane[0]:  4:cma/memory.0 md[4]           -> md[4]/cma/sysdev[255] rma_bw#0
#                 lane[1]:  3:posix/memory.0 md[2]         -> md[2]/posix/sysdev[255] am am_bw#0
`)
	require.NoError(t, err)
	require.Equal(t, lane{"posix", "memory"}, l)
	_, err = laneOf("# lane[0]: 4:cma/memory.0 md[4] -> md[4]/cma/sysdev[255] rma_bw#0 am_bw#1")
	require.Error(t, err)
}

func TestMayUse(t *testing.T) {
	for tls, want := range map[string]map[string]bool{
		"":               {"posix": true, "tcp": true},
		"all":            {"posix": true},
		"^tcp":           {"posix": true, "tcp": false},
		"^sm,self":       {"posix": false, "self": false, "tcp": true, "rc_mlx5": true},
		"shm":            {"posix": true, "sysv": true, "tcp": false},
		"rc,ud:aux,self": {"rc_mlx5": true, "ud_verbs": true, "posix": false, "self": true},
		`\rc_verbs`:      {"rc_verbs": true, "rc_mlx5": false},
	} {
		for name, may := range want {
			require.Equal(t, may, mayUse(tls, name), "%q and %s", tls, name)
		}
	}
}

// TestStub: only a build without UCX is unavailable.
func TestStub(t *testing.T) {
	require.Equal(t, missing, Driver{}.Info().Unavailable)
	if missing == "" {
		return
	}
	require.Contains(t, missing, "libucx-dev")
	_, err := Driver{}.Open(context.Background(), transport.Config{})
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "libucx-dev")
}
