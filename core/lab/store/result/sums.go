package result

import (
	"fmt"
	"slices"

	"transportbench/core/base/parallel"
)

// total is a histogram, and those of which it is the sum.
type total struct {
	text  *string
	parts []string
}

// sum returns the sum of the parts, or "" if there are none.
func (t total) sum() (string, error) {
	parts := slices.DeleteFunc(t.parts, func(text string) bool { return text == "" })
	switch len(parts) {
	case 0:
		return "", nil
	case 1:
		return parts[0], nil
	}
	merged, err := Histograms(parts...)
	if err != nil {
		return "", err
	}
	return merged.Encode(), nil
}

// ofWindow returns the histograms of a window as sums over its clients.
func (r *Repeat) ofWindow() []total {
	list := []total{{text: &r.Latency}, {text: &r.ReadLatency}, {text: &r.WriteLatency},
		{text: &r.Response}, {text: &r.Lag}}
	for _, c := range r.Clients() {
		parts := [...]string{c.Latency, c.ReadLatency, c.WriteLatency, "", ""}
		if c.Open != nil {
			parts[3], parts[4] = c.Open.Response.Histogram, c.Open.Lag.Histogram
		}
		for i, text := range parts {
			list[i].parts = append(list[i].parts, text)
		}
	}
	return list
}

// ofClients returns the latencies of clients as sums of their reads and writes.
func (r *Repeat) ofClients() []total {
	var list []total
	for i := range r.Ranks {
		clients := r.Ranks[i].Clients
		for k := range clients {
			c := &clients[k]
			list = append(list, total{&c.Latency, []string{c.ReadLatency, c.WriteLatency}})
		}
	}
	return list
}

// withoutSums returns a copy of the repeat for a file, with an empty text for each histogram that
// [Repeat.addSums] restores to the byte.
func (r *Repeat) withoutSums() Repeat {
	c := *r
	c.Ranks = slices.Clone(r.Ranks)
	for i := range c.Ranks {
		c.Ranks[i].Clients = slices.Clone(c.Ranks[i].Clients)
	}
	for _, t := range slices.Concat(c.ofWindow(), c.ofClients()) {
		if sum, err := t.sum(); err == nil && sum == *t.text {
			*t.text = ""
		}
	}
	return c
}

// AddSums fills the empty histograms that are sums of others, as in a file. [Parse] does that; only
// those who decode a file by other means need it.
func (r *Result) AddSums() error {
	return parallel.Each(len(r.Repeats), func(i int) error { return r.Repeats[i].addSums() })
}

// addSums is [Result.AddSums] of one repeat.
func (r *Repeat) addSums() error {
	for _, totals := range []func() []total{r.ofClients, r.ofWindow} {
		for _, t := range totals() {
			if *t.text != "" {
				continue
			}
			sum, err := t.sum()
			if err != nil {
				return fmt.Errorf("repeat %d: %w", r.Index, err)
			}
			*t.text = sum
		}
	}
	return nil
}
