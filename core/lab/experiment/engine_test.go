package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/network"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// screen shows nothing.
type screen struct{ io.Writer }

func (screen) Progress(runner.Status) {}
func (screen) Close()                 {}

// engine returns an engine whose runs are made by run, and what it notes.
func engine(t *testing.T, run func(runner.Request) (*result.Result, error)) (*Engine, *[]string) {
	notes := new([]string)
	return &Engine{
		Make: func(_ context.Context, req runner.Request, _ runner.Observer) (
			*result.Result, error) {
			return run(req)
		},
		Dir: t.TempDir(), Note: func(text string) { *notes = append(*notes, text) },
	}, notes
}

// jobs returns one run for each transport.
func jobs(transports ...string) (list []Run) {
	for _, name := range transports {
		c := config.Default()
		c.Transport = name
		list = append(list, Run{Config: c, Plugin: &Plugin{
			Identity: result.Plugin{Name: name},
			Launcher: func(io.Writer, bool) (runner.Launcher, error) { return nil, nil },
		}})
	}
	return list
}

func none(int) Screen { return screen{io.Discard} }

// TestLossOfHost: runs fail one by one, but after the loss of a host there are no others.
func TestLossOfHost(t *testing.T) {
	for _, c := range []struct {
		failure error
		runs    int
		notes   []string
	}{
		{errors.New("rank 1 died"), 3, nil},
		{fmt.Errorf("rank 1: host b %w", hosts.ErrLost), 1,
			[]string{"a host is lost, so 2 transports did not run"}},
	} {
		e, notes := engine(t, func(runner.Request) (*result.Result, error) {
			return nil,
				c.failure
		})
		all, err := e.All(t.Context(), jobs("one", "two", "three"), none)
		require.NoError(t, err)
		require.Len(t, all, c.runs)
		require.ErrorIs(t, all[0].Err, c.failure)
		require.Equal(t, c.notes, *notes)
	}
}

// An address that an emulated network needs is not called an option of the user.
func TestAddressOfNetworkIsNotTheUsers(t *testing.T) {
	asked := config.Config{Transport: "sockets", Options: map[string]string{"address": "127.0.0.1"}}
	given := asked
	given.Options = map[string]string{"address": network.Prefix}
	roles := transport.Roles{Address: "address"}
	refused := fmt.Errorf("opening: %w", &transport.OptionError{Option: "address", Problem: "no"})
	require.Equal(t, wrongNetwork("it needs kernel TCP or UDP sockets, and with these options "+
		"sockets refuses an IP address: choose others (plugins show sockets)"),
		explainAddress(refused, asked, &runner.Request{Config: given}, roles))
	require.Equal(t, refused, explainAddress(refused, given, &runner.Request{Config: given}, roles))
	other := &transport.OptionError{Option: "cid", Problem: "no"}
	require.Equal(t, other, explainAddress(other, asked, &runner.Request{Config: given}, roles))
	require.NoError(t, explainAddress(nil, asked, &runner.Request{Config: given}, roles))
}

// TestMissingWitnesses are noted once for each transport.
func TestMissingWitnesses(t *testing.T) {
	e, notes := engine(t, func(req runner.Request) (*result.Result, error) {
		return &result.Result{Plugin: req.Plugin, Witness: &result.Witness{Missing: "no tool"}}, nil
	})
	list := jobs("one", "two")
	for range 2 {
		for _, j := range list {
			_, err := e.Run(t.Context(), Run{Plugin: j.Plugin, Config: j.Config}, nil)
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{"one: no reference tool: no tool",
		"two: no reference tool: no tool"}, *notes)
}

// TestExpected: the time of runs has all windows, and what the engine measures beside them.
func TestExpected(t *testing.T) {
	list := jobs("one", "two")
	e := &Engine{Beside: runner.Beside{StateOnly: true}}
	windows := 2 * time.Duration(list[0].Config.Repeats) * time.Duration(list[0].Config.Duration)
	bare := e.Expected(list)
	require.Greater(t, bare, windows)
	echo := jobs("echo")
	echo[0].Config.Service = config.ServiceEcho
	echo[0].Config.ValueSize = config.FixedSize(64 << 20)
	few := e.Expected(echo)
	echo[0].Config.Keys *= 100
	require.Equal(t, few, e.Expected(echo), "an echo fills no store")
	echo[0].Config.Clients = 100
	require.Greater(t, e.Expected(echo), few)
	e.Beside = runner.Beside{}
	without := e.Expected(list)
	require.Greater(t, without, bare, "overhead and floors")

	// A reading of the tool that a transport declares stands on both sides of each window.
	tools := t.TempDir()
	t.Setenv("PATH", tools)
	require.NoError(t, os.WriteFile(filepath.Join(tools, "measures"), nil, 0o755))
	list[0].Plugin.Info.References = []transport.Reference{{Tool: "measures",
		Depth: transport.DepthAny, Takes: time.Second}}
	e.Beside.Witness = true
	readings := 2 * time.Duration(list[0].Config.Repeats) * time.Second
	require.GreaterOrEqual(t, e.Expected(list), without+readings)
	list[0].Plugin.Info.References[0].Tool = "absent"
	require.Equal(t, without, e.Expected(list))
}
