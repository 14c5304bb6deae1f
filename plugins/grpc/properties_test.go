package grpc

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestProperties(t *testing.T) {
	p := transporttest.Properties(t, Driver{}, nil)
	require.Equal(t, networkTCP, p.Provider)
	require.Equal(t, transport.MediumTCP, p.Medium)
	require.True(t, p.Capabilities.Ordered)
	require.NotEmpty(t, p.Libraries["grpc-go"])
	p = transporttest.Properties(t, Driver{},
		map[string]string{"calls": callsUnary, "network": networkUnix, "tls": "true"})
	require.Equal(t, networkUnix, p.Provider)
	require.Equal(t, transport.MediumUnix, p.Medium)
	require.False(t, p.Capabilities.Ordered)
	require.Contains(t, p.Integrity, "TLS")
}

// TestWindows: either window set ends grpc-go's adapting of both, and the notes say so.
func TestWindows(t *testing.T) {
	for want, s := range map[string]settings{
		"stream adaptive, connection adaptive": {},
		"stream 1MiB, connection 64KiB":        {streamWindow: 1 << 20},
		"stream 64KiB, connection 1MiB":        {connectionWindow: 1 << 20},
	} {
		require.Equal(t, want, s.notes()["windows"])
	}
}

// TestRefusedOptions checks that what grpc-go would change in silence is an error.
func TestRefusedOptions(t *testing.T) {
	for problem, options := range map[string]map[string]string{
		`option "stream-window": 1024 is below 64KiB`:  {"stream-window": "1KiB"},
		`option "connection-window": 1 is below 64KiB`: {"connection-window": "1"},
		`option "max-streams": 4 is below the 8 calls`: {"calls": callsUnary,
			"max-streams": "4"},
		`option "address": "nowhere" is neither`:          {"address": "nowhere"},
		`option "address": this host has no address in 2`: {"address": "203.0.113.0/24"},
	} {
		values, err := transport.ParseOptions(schema, options)
		require.NoError(t, err)
		_, err = Driver{}.Open(context.Background(),
			transport.Config{Workers: 1, Peers: 1, InFlight: 8, MaxPayload: 64, Options: values})
		require.ErrorContains(t, err, problem)
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong)
	}
}

// TestLargePayload sends more than grpc-go's default limit for a received message.
func TestLargePayload(t *testing.T) {
	if fabrictest.Race {
		t.Skip("the detector is slow with long payloads, and finds nothing more in them")
	}
	for _, options := range []map[string]string{{}, {"calls": callsUnary, "codec": codecProtobuf}} {
		failed, report, err := transporttest.RunClause(transporttest.Suite{Driver: Driver{},
			Options: options, MaxPayload: 9 << 20}, "call/both-sides")
		require.NoError(t, err)
		require.False(t, failed, report)
		failed, report, err = transporttest.RunClause(
			transporttest.Suite{Driver: Driver{}, Options: options, MaxPayload: 9 << 20},
			"poll/size")
		require.NoError(t, err)
		require.False(t, failed, report)
	}
}
