package result

import (
	"math/rand/v2"
	"slices"

	"transportbench/core/base/record"
)

// Pooled is a percentile of the response times of an open loop over all windows, read from their
// merged histograms. A median of the windows' percentiles would drop the stalls that happen in
// fewer than half of the windows.
type Pooled struct {
	Value float64 `json:"value"` // ns
	// Low and High are its 95% interval, by drawing windows with replacement (bootstrap). They are
	// absent if there are fewer than 6 windows.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Samples is the number of response times in all windows, and Windows their number.
	Samples uint64 `json:"samples"`
	Windows int    `json:"windows"`
}

// Responses are the response times of one window of an open loop.
type Responses struct {
	Histogram string
	StepNS    float64 // of the clock
}

// ResponsesOf returns the response times of each repeat that has some.
func ResponsesOf(repeats []Repeat) []Responses {
	var windows []Responses
	for i := range repeats {
		if r := &repeats[i]; r.Response != "" {
			windows = append(windows, Responses{r.Response, r.ClockStep()})
		}
	}
	return windows
}

// pooledQuantiles are the percentiles that are pooled, by metric.
var pooledQuantiles = []struct {
	metric string
	at     float64
}{{ResponseP50, 0.5}, {ResponseP90, 0.9}, {ResponseP99, 0.99}, {ResponseP999, 0.999},
	{ResponseMax, 1}}

// EnoughSamples is how many samples must lie above a percentile for it to be known.
const EnoughSamples = 10

const (
	enoughWindows = 6 // for an interval
	redraws       = 2000
)

// Pool returns the percentiles of the response times over all windows, by metric, or nil if there
// are no response times. Percentiles above which fewer than [EnoughSamples] remain are left out.
func Pool(windows []Responses) (map[string]Pooled, error) {
	var counts []cumulative
	all, step := record.NewHistogram(), 0.0
	for _, w := range windows {
		h, err := record.DecodeHistogram(w.Histogram)
		if err != nil {
			return nil, err
		}
		if h.Count() > 0 {
			all.Merge(h)
			counts = append(counts, newCumulative(h))
			step = max(step, w.StepNS)
		}
	}
	if len(counts) == 0 {
		return nil, nil
	}
	intervals := bootstrap(counts, all)
	pooled := map[string]Pooled{}
	for i, q := range pooledQuantiles {
		p := Pooled{Value: all.Interpolate(q.at, step), Samples: all.Count(), Windows: len(counts)}
		if q.at == 1 {
			p.Value = float64(all.Max())
		} else if float64(all.Count())*(1-q.at) < EnoughSamples-0.5 { // the product is rounded
			continue
		} else if intervals != nil {
			p.Low, p.High = new(min(intervals[i].low, p.Value)),
				new(max(intervals[i].high, p.Value))
		}
		pooled[q.metric] = p
	}
	return pooled, nil
}

// cumulative counts the records of one window up to each of its values.
type cumulative struct {
	values []float64
	counts []float64
}

func newCumulative(h *record.Histogram) cumulative {
	var c cumulative
	sum := 0.0
	for _, b := range h.Buckets() {
		sum += float64(b.Count)
		c.values, c.counts = append(c.values, (float64(b.From)+float64(b.To))/2),
			append(c.counts, sum)
	}
	return c
}

// upTo returns how many records are not above x.
func (c *cumulative) upTo(x float64) float64 {
	i, found := slices.BinarySearch(c.values, x)
	if found {
		i++
	}
	if i == 0 {
		return 0
	}
	return c.counts[i-1]
}

type interval struct{ low, high float64 }

// bootstrap returns the 95% interval of each pooled quantile, or nil if there are too few windows.
// It draws whole windows, because the response times of one window depend on each other. The draws
// are the same each time.
func bootstrap(windows []cumulative, all *record.Histogram) []interval {
	if len(windows) < enoughWindows {
		return nil
	}
	var values []float64 // of all windows
	for _, b := range all.Buckets() {
		values = append(values, (float64(b.From)+float64(b.To))/2)
	}
	// below has the counts of each window up to each of the values.
	below := make([][]float64, len(windows))
	for w := range windows {
		below[w] = make([]float64, len(values))
		for i, v := range values {
			below[w][i] = windows[w].upTo(v)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	found := make([][]float64, len(pooledQuantiles))
	for range redraws {
		drawn := make([]float64, len(windows)) // how often each window was drawn
		for range windows {
			drawn[random.IntN(len(windows))]++
		}
		upTo := func(i int) (n float64) {
			for w, times := range drawn {
				n += times * below[w][i]
			}
			return n
		}
		total := upTo(len(values) - 1)
		for i, q := range pooledQuantiles {
			low, high := 0, len(values)-1
			for low < high {
				if middle := (low + high) / 2; upTo(middle) < q.at*total {
					low = middle + 1
				} else {
					high = middle
				}
			}
			found[i] = append(found[i], values[low])
		}
	}
	intervals := make([]interval, len(found))
	for i, list := range found {
		slices.Sort(list)
		const tail = (1 - confidence) / 2
		intervals[i] = interval{list[int(tail*redraws)], list[int((1-tail)*redraws)]}
	}
	return intervals
}
