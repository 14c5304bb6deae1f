package analyze

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// course is a series that rises evenly from one value to another.
func course(name, remedy string, from, to float64) transport.Series {
	s := transport.Series{Name: name, Help: "time of " + name, Remedy: remedy}
	for i := range record.Slices {
		s.Values = append(s.Values, from+(to-from)*float64(i)/(record.Slices-1))
	}
	return s
}

// TestCourses: what holds a side up is told with the largest share first, over all threads
// and repeats, and named among the figures of the verdict.
func TestCourses(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		each(r, func(d *record.DaemonReport, c *record.ClientReport) {
			c.Series = []transport.Series{course("window", "", 4, 12), course("small", "nothing", 0, 0.01),
				course("credit", "more of it", 0.1, 0.3), course("sending", "sockets", 0.2, 0.8)}
			d.Series = []transport.Series{course("data", "a faster network", 0.9, 0.9)}
		})
		// The second client's thread has no credit at all.
		r.Repeats[0].Ranks[1].Clients[0].Series = []transport.Series{course("sending", "sockets", 0.5, 0.5)}
	})
	var names []string
	for _, c := range a.OverTime {
		names = append(names, c.Side+" "+c.Name)
	}
	require.Equal(t, []string{"clients sending", "clients credit", "clients window", "daemons data"}, names)
	sending, credit, window := a.OverTime[0], a.OverTime[1], a.OverTime[2]
	require.InDelta(t, 0.5, sending.Mean, 1e-9)
	require.InDelta(t, (5*0.2+0.5)/6, sending.Low, 1e-9)
	require.InDelta(t, (5*0.8+0.5)/6, sending.High, 1e-9)
	require.InDelta(t, 0.2*5/6, credit.Mean, 1e-9, "0 where a thread does not tell of it")
	require.Len(t, window.Values, record.Slices)
	require.Contains(t, sending.Message, "clients: sending 50% of the time, 25 to 75% in the course of the window: time of sending; what would make it less: sockets")
	require.Contains(t, window.Message, "clients: window 6.67 in the mean, 3.33 to 10 in the course of the window")
	require.Contains(t, a.Verdict.Evidence, "what holds the transport of the clients up most is sending, 50% of the time: time of sending")
	require.Contains(t, a.Verdict.Evidence, "what holds the transport of the daemons up most is data, 90% of the time: time of data")
	require.Empty(t, analysed(t, nil).OverTime, "of transports that tell nothing")
}
