package analyze

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// cell returns a cell with six repeats. Throughput varies by 1% around a median, and p99 by 10%.
func cell(inFlight int, throughput, p99 float64) set.Cell {
	c := set.Cell{
		Config: map[string]string{"transport": "shm", "clients": "1",
			"in_flight": fmt.Sprint(inFlight), "duration": "1s"},
		Status: set.Measured, Environment: -1, Samples: map[string][]float64{},
	}
	for _, d := range []float64{-1, -0.6, -0.2, 0.2, 0.6, 1} {
		c.Samples[result.Throughput] = append(c.Samples[result.Throughput], throughput*(1+0.01*d))
		c.Samples[result.LatencyP99] = append(c.Samples[result.LatencyP99], p99*(1+0.1*d))
		c.Samples[result.LatencyP50] = append(c.Samples[result.LatencyP50], p99/2)
	}
	return c
}

// loads returns a curve with its peak at 16 and its knee at 4.
func loads() *set.Set {
	s := set.New()
	s.Cells = []set.Cell{
		cell(32, 4.2e6, 40e3), cell(1, 1e6, 2e3), cell(2, 1.9e6, 2.1e3), cell(4, 3.5e6, 2.9e3),
		cell(8, 4.2e6, 5e3), cell(16, 4.3e6, 10e3),
	}
	return s
}

func curveOf(t *testing.T, s *set.Set, o CapacityOptions) Curve {
	t.Helper()
	c, err := CapacityOf(s, o)
	require.NoError(t, err)
	require.Len(t, c.Curves, 1)
	return c.Curves[0]
}

func objective(t *testing.T, text string) *Objective {
	t.Helper()
	o, err := ParseObjective(text)
	require.NoError(t, err)
	return &o
}

func TestCurve(t *testing.T) {
	u := curveOf(t, loads(), CapacityOptions{})
	var order, past []string
	for _, p := range u.Points {
		order = append(order, p.Load)
		if p.Past {
			past = append(past, p.Load)
		}
	}
	require.Equal(t, []string{"in_flight=1", "in_flight=2", "in_flight=4", "in_flight=8",
		"in_flight=16", "in_flight=32"}, order)
	require.Equal(t, []string{"in_flight=32"}, past)
	require.Equal(t, "in_flight", u.Axis)
	require.Equal(t, result.LatencyP99, u.Metric)
	require.False(t, u.Open)

	// Throughput over p50: 1, 1.81, 2.41, 1.68, 0.86, 0.21 M op/s per us.
	require.Equal(t, 2, *u.Knee)
	points := map[string]int{}
	for _, o := range u.Operating {
		points[o.Name] = o.Point
	}
	// 2.1 us are within 10% of 2 us; 4.2 M are within 5% of 4.3 M.
	require.Equal(t, map[string]int{"low latency": 1, "balanced": 2, "high throughput": 3,
		"maximum": 4}, points)
	require.Nil(t, u.Peak)
	require.Contains(t, u.Message, "at most 4.30 M op/s (95% interval 4.26 to 4.34)")
}

// Cells that differ in ranks, clients and calls in flight are on one curve, in order of all calls.
func TestCurveOverRanks(t *testing.T) {
	s := set.New()
	for _, ranks := range []int{4, 1, 2} {
		c := cell(2, 1e6*float64(ranks), 2e3)
		c.Config["topology"], c.Config["ranks"] = "mesh-direct", fmt.Sprint(ranks)
		s.Cells = append(s.Cells, c)
	}
	u := curveOf(t, s, CapacityOptions{})
	require.Equal(t, "ranks", u.Axis)
	var order []string
	for _, p := range u.Points {
		order = append(order, p.Load)
	}
	require.Equal(t, []string{"ranks=1", "ranks=2", "ranks=4"}, order)
	require.NotContains(t, u.Config, "ranks")
}

// The slowdown is that of a mesh with one rank under the same load of each rank, whatever share of
// the requests is remote.
func TestSlowdowns(t *testing.T) {
	mesh := func(ranks, remote, clients string, throughput float64) set.Cell {
		c := cell(1, throughput, 2e3)
		c.Config["topology"], c.Config["ranks"], c.Config["remote_share"],
			c.Config["clients"] = "mesh-proxied", ranks, remote, clients
		return c
	}
	s := set.New()
	s.Cells = []set.Cell{
		mesh("2", "-1", "16", 4.46e6), mesh("1", "-1", "16", 15.77e6), mesh("2", "1", "16", 2e6),
		mesh("2", "-1", "8", 1e6), // no single rank has 8 clients
	}
	other := mesh("2", "-1", "16", 1e6)
	other.Config["topology"] = "client-server"
	s.Cells = append(s.Cells, other)
	require.NoError(t, s.Check())
	list := SlowdownsOf(s)
	require.Len(t, list, 2)
	require.InEpsilon(t, 15.77/4.46, list[0].Ratio, 0.001)
	require.Less(t, *list[0].Low, list[0].Ratio)
	require.Greater(t, *list[0].High, list[0].Ratio)
	require.InEpsilon(t, 15.77/2, list[1].Ratio, 0.001)
	require.InEpsilon(t, 15.77e6, list[1].Alone.Median, 0.001)
	require.InEpsilon(t, 2e6, list[1].All.Median, 0.001)
	require.Contains(t, list[1].Cell, "remote_share=1")

	// It is that of the rates beside it, whichever states of the machine the windows were in.
	far := func(c *set.Cell, from int) {
		for i := range c.Samples[result.Throughput] {
			w := set.Window{DistanceBefore: 50, DistanceAfter: 50}
			if i >= from {
				w = set.Window{DistanceBefore: 500, DistanceAfter: 500}
				c.Samples[result.Throughput][i] /= 4
			}
			c.Windows = append(c.Windows, w)
		}
	}
	far(&s.Cells[0], 1)
	far(&s.Cells[1], len(s.Cells[1].Samples[result.Throughput])-1)
	split := SlowdownsOf(s)[0]
	require.InEpsilon(t, split.Alone.Median/split.All.Median, split.Ratio, 1e-9)
	require.InEpsilon(t, 4*15.77/4.46, split.Ratio, 0.02)
}

func TestObjective(t *testing.T) {
	cells := loads()
	cells.Cells[5].Samples[result.Stalled] = []float64{0.4, 0.5, 0.6}
	u := curveOf(t, cells, CapacityOptions{Objective: objective(t, "p99<5.2us"), Target: 10e6,
		Headroom: new(0.0)})
	var meets []string
	for _, p := range u.Points {
		meets = append(meets, p.Meets)
	}
	// The interval of 5 us ends at 5.5 us.
	require.Equal(t, []string{MeetsYes, MeetsYes, MeetsYes, MeetsPerhaps, MeetsNo, MeetsNo}, meets)
	for _, p := range u.Points {
		require.Equal(t, p.Cell == 5, p.Stalled == 0.5, "the machine's tail")
	}
	require.Equal(t, 2, *u.Peak, "what certainly meets it")
	require.Contains(t, u.Message,
		"3.50 M op/s (95% interval 3.46 to 3.54) under p99<5.2us, with in_flight=4")

	// 10 M over 3.5 M, and over 3.535 M and 3.465 M.
	require.Len(t, u.Servers, 1)
	require.Equal(t, 3, u.Servers[0].Servers)
	require.Equal(t, []int{3, 3}, []int{*u.Servers[0].Low, *u.Servers[0].High})
	exact := u.need("", 2, 3.5e6)
	require.Equal(t, []int{1, 1, 2}, []int{exact.Servers, *exact.Low, *exact.High},
		"an interval that goes over a whole number")

	none := curveOf(t, loads(), CapacityOptions{Objective: objective(t, "p99<1us"), Target: 10e6,
		Headroom: new(0.0)})
	require.Nil(t, none.Peak)
	require.Empty(t, none.Servers)
	require.Contains(t, none.Message, "no load meets p99<1us: the lowest latency_p99 is 2.00 us")

	all := curveOf(t, loads(), CapacityOptions{Target: 10e6, Headroom: new(0.0)})
	require.Len(t, all.Servers, 4)
}

func TestMediansAloneOnlyPerhapsMeet(t *testing.T) {
	s := loads()
	for i := range s.Cells {
		for name, values := range s.Cells[i].Samples {
			s.Cells[i].Samples[name] = values[:3]
		}
	}
	u := curveOf(t, s, CapacityOptions{Objective: objective(t, "p99<6us"), Target: 1e9,
		Headroom: new(0.0)})
	require.Equal(t, MeetsPerhaps, u.Points[*u.Peak].Meets)
	require.Contains(t, u.Message, "measure more repeats")
	require.Nil(t, u.Servers[0].Low)
}

func TestUnusablePointsAreShownAndNotChosen(t *testing.T) {
	s := loads()
	s.Cells[5].Warnings = []result.Finding{{Name: "verified", Severity: result.Error,
		Message: "wrong"}}
	s.Cells[4].Warnings = []result.Finding{{Name: "drift", Severity: result.Warning,
		Message: "it fell"}}
	u := curveOf(t, s, CapacityOptions{})
	require.Len(t, u.Points, 6)
	require.Equal(t, "check verified failed: wrong", u.Points[4].Unusable)
	for _, o := range u.Operating {
		require.NotEqual(t, 4, o.Point)
	}
	require.False(t, u.Points[5].Past, "what cannot be used is no peak")
}

func TestOpenAndClosedLoopsShareNoCurve(t *testing.T) {
	s := loads()
	for _, rate := range []string{"1000", "2000", "500"} {
		c := cell(8, 1e3, 2e3)
		c.Config["rate"] = rate
		c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
		s.Cells = append(s.Cells, c)
	}
	c, err := CapacityOf(s, CapacityOptions{Objective: objective(t, "p99<6us")})
	require.NoError(t, err)
	require.Len(t, c.Curves, 2)
	open := c.Curves[1]
	require.True(t, open.Open)
	require.Equal(t, result.ResponseP99, open.Metric)
	require.Equal(t, []string{"rate=500", "rate=1k", "rate=2k"},
		[]string{open.Points[0].Load, open.Points[1].Load, open.Points[2].Load})
}

// A server that reached an offered rate can do at least that, whatever arrived in the windows.
func TestOfferedRateIsSustained(t *testing.T) {
	s := set.New()
	s.Cells = []set.Cell{cell(8, 19.4e3, 2e3)}
	c := &s.Cells[0]
	c.Config["rate"] = "20000"
	c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
	o := CapacityOptions{Objective: objective(t, "p99<6us"), Target: 20e3}
	u := curveOf(t, s, o)
	require.Equal(t, 20e3, u.Points[0].Sustained)
	require.Equal(t, []ServersNeeded{{Name: "p99<6us", Servers: 1}}, u.Servers)
	require.Contains(t, u.Message, "at least the offered 20.0 K op/s under p99<6us, with rate=20k")
	any := curveOf(t, s, CapacityOptions{})
	require.Contains(t, any.Message, "at least the offered 20.0 K op/s, with rate=20k")
	require.Len(t, any.Operating, 1, "of one load")

	c.Warnings = []result.Finding{{Name: "rate", Severity: result.Warning, Message: "not kept"}}
	u = curveOf(t, s, o)
	require.Zero(t, u.Points[0].Sustained)
	require.Equal(t, 2, u.Servers[0].Servers)
	require.NotNil(t, u.Servers[0].Low)
}

// A rate that meets the objective does not count above one that misses it, unless that is unusable.
func TestRatesAboveAMissDoNotCount(t *testing.T) {
	s := set.New()
	for i, p99 := range []float64{2e3, 9e3, 3e3} {
		c := cell(8, 1e3*float64(i+1), p99)
		c.Config["rate"] = fmt.Sprint(1000 * (i + 1))
		c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
		s.Cells = append(s.Cells, c)
	}
	o := CapacityOptions{Objective: objective(t, "p99<6us")}
	u := curveOf(t, s, o)
	require.Equal(t, 0, *u.Peak)
	require.Equal(t, []bool{false, false, true},
		[]bool{u.Points[0].AfterMiss, u.Points[1].AfterMiss, u.Points[2].AfterMiss})

	s.Cells[1].Warnings = []result.Finding{{Name: "verified", Severity: result.Error}}
	u = curveOf(t, s, o)
	require.Equal(t, 2, *u.Peak, "nothing is known of the rate between")
}

// Speeds of one trace are a curve, also where they are shares of the capacity.
func TestSpeedsAreACurve(t *testing.T) {
	s := set.New()
	for _, speed := range []float64{4, 1, 2} {
		c := cell(8, 1e3*speed, 1e3*speed)
		c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
		c.Run = &config.Config{Replay: "sha256:01", Speed: config.Speed(speed),
			Rate: config.Rate(1e3 * speed)}
		c.Config["replay"], c.Config["duration"] = "sha256:01", fmt.Sprint(10/speed, "s")
		c.Config["rate"], c.Config["speed"] = fmt.Sprint(1e3*speed), fmt.Sprint(speed)
		if speed == 2 {
			c.Capacity = &result.Capacity{Share: 0.5, Rate: 2e3, Value: 4e3}
			set.SetShare(c.Config, 0.5)
		}
		s.Cells = append(s.Cells, c)
	}
	u := curveOf(t, s, CapacityOptions{Objective: objective(t, "p99<3us")})
	require.Equal(t, "speed", u.Axis)
	require.Equal(t, "shm", u.Label)
	require.Equal(t, []string{"speed=1.00", "speed=2.00", "speed=4.00"},
		[]string{u.Points[0].Load, u.Points[1].Load, u.Points[2].Load})
	require.Equal(t, 1, *u.Peak)
	require.Nil(t, u.Points[0].Within, "there are no results")
}

// The share of response times within an objective is that of all windows together.
func TestWithin(t *testing.T) {
	s := set.New()
	c := cell(8, 1e3, 1e3)
	c.Config["rate"] = "1000"
	c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
	r := new(result.Result)
	for _, times := range [][]uint64{{1000, 1000, 1000}, {1000, 9000}} {
		h := record.NewHistogram()
		for _, ns := range times {
			h.Record(ns)
		}
		r.Repeats = append(r.Repeats, result.Repeat{Response: h.Encode()})
	}
	c.Results = []*result.Result{r}
	s.Cells = []set.Cell{c}
	u := curveOf(t, s, CapacityOptions{Objective: objective(t, "p99<3us")})
	require.InDelta(t, 0.8, *u.Points[0].Within, 1e-9)
	u = curveOf(t, s, CapacityOptions{})
	require.Nil(t, u.Points[0].Within)
}

func TestCellsOfOtherConfigurationsAreOtherCurves(t *testing.T) {
	s := loads()
	other := cell(1, 1e6, 1e3)
	other.Config["transport"] = "ucxam"
	longer := cell(2, 1e6, 1e3)
	longer.Config["duration"] = "2s"
	s.Cells = append(s.Cells, other, longer)
	c, err := CapacityOf(s, CapacityOptions{})
	require.NoError(t, err)
	require.Len(t, c.Curves, 3)
	require.Nil(t, c.Curves[1].Knee, "of one point")
}

func TestCapacityNeedsCells(t *testing.T) {
	_, err := CapacityOf(set.New(), CapacityOptions{})
	require.ErrorIs(t, err, ErrNoCurve)
	_, err = CapacityOf(loads(), CapacityOptions{Objective: objective(t, "read_p50<1us")})
	require.ErrorIs(t, err, ErrNoCurve)
	require.ErrorContains(t, err, "no cell has the metric read_p50")
}

// The points that the seed document recommends, and the example of its table.
func TestCapacityOfTheKVStoreDocument(t *testing.T) {
	s, err := set.Load("../../../../results/published/kvstore.json")
	require.NoError(t, err)
	u := curveOf(t, s, CapacityOptions{Rate: result.TokenRate,
		Objective: objective(t, "read_p50<30ms"), Target: 1e6, Headroom: new(0.0)})
	chosen := map[string]string{}
	for _, o := range u.Operating {
		chosen[o.Name] = u.Points[o.Point].Load
	}
	require.Equal(t, map[string]string{"low latency": "in_flight=8", "balanced": "in_flight=32",
		"high throughput": "in_flight=64", "maximum": "in_flight=80"}, chosen)
	// The document takes 19 servers at 16 in flight; with 32 a read takes 26 ms.
	require.Equal(t, "in_flight=32", u.Points[*u.Peak].Load)
	require.Equal(t, 14, u.Servers[0].Servers)
}

func TestParseObjective(t *testing.T) {
	for text, want := range map[string]Objective{
		"p99<50us":           {"p99", 50e3, "p99<50us"},
		" p99.9 <= 1.5ms ":   {"p999", 1.5e6, "p99.9 <= 1.5ms"},
		"read_p50<30ms":      {"read_p50", 30e6, "read_p50<30ms"},
		"response-p999<1s":   {"response_p999", 1e9, "response-p999<1s"},
		"iteration_p90<10ms": {"iteration_p90", 10e6, "iteration_p90<10ms"},
	} {
		got, err := ParseObjective(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"p99":             "not an objective",
		"p99>50us":        "not an objective",
		"p99<50":          "not an objective",
		"p98<50us":        "unknown metric",
		"throughput<50us": "unknown metric",
		"goodput_x<50us":  "unknown metric",
		"floor_ratio<5us": "is not a time",
		"p99<0us":         "not a time",
		"p99<5parsecs":    "not a time",
	} {
		_, err := ParseObjective(text)
		require.ErrorContains(t, err, want, text)
	}
	bare, err := ParseObjective("p99<1us")
	require.NoError(t, err)
	require.Equal(t, result.LatencyP99, bare.metric(false))
	require.Equal(t, result.ResponseP99, bare.metric(true))
}

func FuzzParseObjective(f *testing.F) {
	f.Add("p99<50us")
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := ParseObjective(text); err == nil {
			require.Positive(t, o.Limit)
		}
	})
}

func TestMeasuredAfter(t *testing.T) {
	s := loads()
	from := &s.Cells[1]
	there := MeasuredAfter(s, from, "in_flight=4")
	require.InEpsilon(t, 3.5e6, there.Median, 1e-9)
	require.Nil(t, MeasuredAfter(s, from, "in_flight=5"))
	require.Nil(t, MeasuredAfter(s, from, "in_flight=4,rtt=2us"))
	burning := cell(1, 5e5, 2e3)
	burning.Config["burn"] = "1µs"
	s.Cells = append(s.Cells, burning)
	require.InEpsilon(t, 5e5, MeasuredAfter(s, &s.Cells[1], "burn=1us").Median, 1e-9)
}
