package analyze

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// series returns a series that rises evenly from one value to another.
func series(name, remedy string, from, to float64) transport.Series {
	s := transport.Series{Name: name, Help: "time of " + name, Remedy: remedy}
	for i := range record.Slices {
		s.Values = append(s.Values, from+(to-from)*float64(i)/(record.Slices-1))
	}
	return s
}

// The stalls of a side are averaged over all threads and repeats, the largest is first, and the
// verdict's evidence names it.
func TestTimeSeries(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		each(r, func(d *record.DaemonReport, c *record.ClientReport) {
			c.Series = []transport.Series{series("window", "", 4, 12),
				series("small", "nothing", 0, 0.01),
				series("credit", "more of it", 0.1, 0.3), series("sending", "sockets", 0.2, 0.8)}
			d.Series = []transport.Series{series("data", "a faster network", 0.9, 0.9)}
		})
		// The second client's thread has no series of credits.
		r.Repeats[0].Ranks[1].Clients[0].Series = []transport.Series{
			series("sending", "sockets", 0.5, 0.5)}
	})
	var names []string
	for _, c := range a.OverTime {
		names = append(names, c.Side+" "+c.Name)
	}
	require.Equal(t, []string{"clients sending", "clients credit", "clients window",
		"daemons data"}, names)
	sending, credit, window := a.OverTime[0], a.OverTime[1], a.OverTime[2]
	require.InDelta(t, 0.5, sending.Mean, 1e-9)
	require.InDelta(t, (5*0.2+0.5)/6, sending.Low, 1e-9)
	require.InDelta(t, (5*0.8+0.5)/6, sending.High, 1e-9)
	require.InDelta(t, 0.2*5/6, credit.Mean, 1e-9, "0 for a thread without the series")
	require.Len(t, window.Values, record.Slices)
	require.Contains(t, sending.Message, "clients: sending 50% of the time, 25 to 75% over the "+
		"window: time of sending; remedy: sockets")
	require.Contains(t, window.Message,
		"clients: window 6.67 on average, 3.33 to 10 over the window")
	require.Contains(t, a.Verdict.Evidence,
		"main stall on the clients: sending, 50% of the time: time of sending")
	require.Contains(t, a.Verdict.Evidence,
		"main stall on the daemons: data, 90% of the time: time of data")
	require.Empty(t, analysed(t, nil).OverTime, "transports without series")
}
