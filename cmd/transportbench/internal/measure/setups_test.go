package measure_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/micro"
)

// Rounds become one series for each phase and number of connections, of which only a steady rise is
// one.
func TestSetupPhases(t *testing.T) {
	var rounds []*record.SetupReading
	for i := range 400 {
		wobble := uint64(i * 7 % 10)
		if i < 40 {
			wobble += 1000 // it warms up
		}
		rounds = append(rounds, &record.SetupReading{CloseNS: 5000 + wobble,
			RankSetup: record.RankSetup{
				OpenNS: 10_000 + uint64(i), RegisteredBytes: 1 << 19, RegisterNS: 500,
				Connections: 1,
				ConnectNS:   2000 - uint64(i)/4, ConnectAllNS: 5000 + wobble,
				FirstCalls: 1, FirstCallNS: 700 + wobble,
			}})
	}
	for range 10 {
		rounds = append(rounds, &record.SetupReading{CloseNS: 9000,
			RankSetup: record.RankSetup{OpenNS: 1, Connections: 10, ConnectNS: 3000,
				ConnectAllNS: 7000, FirstCallNS: 1}})
	}
	phases := micro.Phases(rounds)
	require.Len(t, phases, 6+5, "the second has registered nothing")
	require.Equal(t, result.SetupRegister, phases[1].Metric)
	require.InDelta(t, 1000, phases[1].Median, 1e-9)
	require.Equal(t, 10, phases[6].Connections)
	require.InDelta(t, 300, phases[7].Median, 1e-9, "of one connection")
	require.InDelta(t, 0.0264, phases[0].Trend.Change, 1e-3)
	var out bytes.Buffer
	require.NoError(t, doc.WriteText(&out, micro.SetupPhases(phases), doc.Screen{}))
	require.Regexp(t, `(?m)^ +1  setup_open .* 400 +\+2\.6\d% \(.*\)  gets slower$`, out.String())
	require.Regexp(t, `(?m)^ +setup_register +1\.00 us/MiB .*no trend$`, out.String())
	require.Regexp(t, `(?m)^ +setup_connect .*gets faster$`, out.String())
	require.Regexp(t, `(?m)^ +teardown .*no trend$`, out.String())
	require.Regexp(t, `(?m)^ +10  setup_open .* 10 +`, out.String())
}
