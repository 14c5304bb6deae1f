package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/fabric/fabrictest/hosts"
	"transportbench/core/lab/store/result"
)

// pathOf returns the check path of a result, and the names of the interfaces that rank 1 states.
func pathOf(t *testing.T, r *result.Result) (check result.Finding, interfaces []string) {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == "path" {
			check = c
		}
	}
	require.NotEmpty(t, check.Name)
	for _, p := range r.Setup.Ranks[1].Paths {
		interfaces = append(interfaces, p.Interface)
	}
	return check, interfaces
}

// TestPathOverTwoRoutes: the result names the interface over which the bytes went. If the route
// changes after the transport has stated its path, the check fails and names the other interface.
// In short mode it does so over TCP.
func TestPathOverTwoRoutes(t *testing.T) {
	for _, transport := range []string{"sockets", "erpc"} {
		if testing.Short() && transport == "erpc" {
			continue
		}
		t.Run(transport, func(t *testing.T) {
			r := runOverLink(t, transport, "--duration", "100ms", "--repeats", "200", "--launches",
				"1", "--value-size", "4KiB")
			hosts.AddSecondWire(t, r.a, r.b)
			require.NoError(t, r.cmd.Start())
			r.progress.await(t, "repeat 1 of 200 done")
			require.NoError(t, r.a.Reroute(r.b))
			require.NoError(t, r.b.Reroute(r.a))
			// Windows that have not been announced by now begin on the new route.
			done := strings.Count(r.progress.String(), " of 200 done")
			r.progress.await(t, fmt.Sprintf("repeat %d of 200 done", done+4))
			require.NoError(t, r.cmd.Process.Signal(os.Interrupt))
			_, got := r.end(t)
			check, interfaces := pathOf(t, got)
			require.Equal(t, []string{"wire"}, interfaces)
			require.False(t, check.OK, check.Message)
			require.Equal(t, result.Error, check.Severity)
			require.Regexp(t,
				`over wire: in \d+ windows?, the path's interface carried .*; second, which is no part of it, sent `, check.Message)

			again := overHosts(t, transport, r.a, r.b, "--duration", "50ms", "--repeats", "1",
				"--value-size", "4KiB")
			require.NoError(t, again.cmd.Start())
			_, got = again.end(t)
			check, interfaces = pathOf(t, got)
			require.Equal(t, []string{"second"}, interfaces)
			require.True(t, check.OK, check.Message)
			require.Contains(t, check.Message, "over second: ")
			require.NotContains(t, check.Message, "not judged")
		})
	}
}

// TestStripesOverTwoWires: with the addresses of two NICs, tcpx sends over both, and the path has
// both.
func TestStripesOverTwoWires(t *testing.T) {
	r := runOverLink(t, "tcpx", "--set", "more-addresses=10.78.0.0/24", "--set", "sockets=4",
		"--profile", "bulk", "--duration", "100ms", "--repeats", "2", "--launches", "1")
	hosts.AddSecondWire(t, r.a, r.b)
	require.NoError(t, r.cmd.Start())
	_, got := r.end(t)
	check, interfaces := pathOf(t, got)
	require.True(t, check.OK, check.Message)
	require.NotContains(t, check.Message, "not judged")
	require.ElementsMatch(t, []string{"wire", "second"}, interfaces)
	for i := range got.Repeats {
		sent := map[string]float64{}
		for _, c := range got.Repeats[i].Ranks[1].Carried.Counters {
			if c.Kind == record.KindInterface {
				sent[c.Name] = float64(c.Sent)
			}
		}
		require.InDelta(t, 0.5, sent["wire"]/(sent["wire"]+sent["second"]), 0.1,
			"the share of the first wire")
	}
}

// TestTransportLiesAboutItsPath: a transport that states another path than the bytes take fails its
// runs.
func TestTransportLiesAboutItsPath(t *testing.T) {
	for path, message := range map[string]string{
		// A window in which a starved thread sent next to nothing is not judged.
		"tcp": "tcp over lo: in [12] windows?, the path's TCP connections carried 0 B of ",
		"detour": " went over TCP from 127.0.0.1 to 127.0.0.1, which the transport does not " +
			"state, beside ",
	} {
		t.Run(path, func(t *testing.T) {
			i := command(t, "run", "--json", "--transport", "calibration", "--set", "path="+path,
				"--duration", "20ms", "--warmup", "10ms", "--repeats", "2", "--launches", "1",
				"--value-size", "1KiB")
			require.Equal(t, 4, i.run(t)) // a check failed
			r, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err, i.stderr.String())
			check, _ := pathOf(t, r)
			require.False(t, check.OK, check.Message)
			require.Regexp(t, message, check.Message)
		})
	}
}
