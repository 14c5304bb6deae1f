package rank

import (
	"slices"

	"transportbench/core/transport"
)

// workerCounters are the counters of one worker over a window.
type workerCounters struct {
	reader        transport.StatsReader // nil if the worker has no counters
	before, after []transport.Stat
}

func newWorkerCounters(w transport.Worker) *workerCounters {
	reader, _ := w.(transport.StatsReader)
	return &workerCounters{reader: reader}
}

func (c *workerCounters) begin() { c.before = c.read(c.before) }

func (c *workerCounters) end() { c.after = c.read(c.after) }

func (c *workerCounters) read(into []transport.Stat) []transport.Stat {
	if c.reader == nil {
		return nil
	}
	return c.reader.ReadStats(into[:0])
}

// window returns the increase of the counters between begin and end, and levels as of end. It
// returns nil if the window did not end.
func (c *workerCounters) window() []transport.Stat {
	if len(c.before) != len(c.after) {
		return nil
	}
	list := slices.Clone(c.after)
	for i := range list {
		if !list[i].Level {
			list[i].Value -= min(c.before[i].Value, list[i].Value)
		}
	}
	return list
}
