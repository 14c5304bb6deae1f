package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// loops shows what the daemons of each rank did in their loops.
func (p *cellPage) loops(loops []result.RankLoop) {
	p.loopEvents(loops)
	p.loopPhases(loops)
	p.loopTimes(loops)
	p.loopWrites(loops)
}

func (p *cellPage) loopEvents(loops []result.RankLoop) {
	events := slices.DeleteFunc(result.LoopEvents(), func(name string) bool {
		return !slices.ContainsFunc(loops, func(l result.RankLoop) bool { _, has := l.PerLoop[name]; return has })
	})
	names := []string{"rank*", ">daemons", ">loops/s"}
	for _, name := range events {
		names = append(names, ">"+strings.ReplaceAll(name, "_", " "))
	}
	t := newTable("Events per iteration of the daemons' loop", nil, append(names, ">loops/req")...)
	for i := range loops {
		l := &loops[i]
		row := []entry{number(l.Rank), number(l.Daemons), text(short(l.PerSecond))}
		for _, name := range events {
			if count, has := l.PerLoop[name]; has {
				row = append(row, text(format.Digits(count)))
			} else {
				row = append(row, text("-"))
			}
		}
		each := "-"
		if l.LoopsPerRequest > 0 {
			each = format.Digits(l.LoopsPerRequest)
		}
		t.add(append(row, text(each))...)
	}
	p.table(t)
}

func (p *cellPage) loopPhases(loops []result.RankLoop) {
	t := newTable("Phases of sampled iterations", nil, "rank*", "phase*", ">mean*", ">p50*", ">p90*", ">p99*", ">max*", ">samples")
	for i := range loops {
		for _, name := range result.LoopPhases() {
			if s := loops[i].Phases[name]; s.Samples > 0 {
				t.add(number(loops[i].Rank), text(name), duration(s.Mean), duration(s.P50), duration(s.P90), duration(s.P99), duration(s.Max), text(strconv.FormatUint(s.Samples, 10)))
			}
		}
	}
	if len(t.Rows) == 0 {
		p.write(`<p class="note">No iteration was timed.</p>`)
		return
	}
	p.table(t)
}

// loopTimes is the histogram of the time of an iteration, with a bar for each rank.
func (p *cellPage) loopTimes(loops []result.RankLoop) {
	names := []string{"time"}
	var timed []result.RankLoop
	var totals []uint64
	for _, l := range loops {
		total := uint64(0)
		for _, bucket := range l.Times {
			total += bucket.Count
		}
		if total > 0 {
			timed, totals = append(timed, l), append(totals, total)
			names = append(names, ">rank "+strconv.Itoa(l.Rank), ">share", "")
		}
	}
	if len(timed) == 0 {
		return
	}
	t := newTable("Sampled iterations by their time", nil, names...)
	for i, bucket := range timed[0].Times {
		name := "to " + roundTime(bucket.AtMostNS)
		if bucket.AtMostNS == 0 {
			name = "over " + roundTime(timed[0].Times[i-1].AtMostNS)
		}
		row := []entry{text(name)}
		for j, l := range timed {
			share := float64(l.Times[i].Count) / float64(totals[j])
			row = append(row, text(strconv.FormatUint(l.Times[i].Count, 10)), text(percentOf(share)),
				markup(fmt.Sprintf(`<svg class="share" aria-hidden="true"><rect class="under" width="%.4g%%" y="3" height="10"/></svg>`, 100*share), nil))
		}
		t.add(row...)
	}
	p.table(t)
}

func roundTime(ns uint64) string {
	if ns >= 1000 {
		return strconv.FormatFloat(float64(ns)/1000, 'g', -1, 64) + " us"
	}
	return strconv.FormatUint(ns, 10) + " ns"
}

// loopWrites has the batches of each window. Batches are counted by powers of two, so a percentile is a
// range.
func (p *cellPage) loopWrites(loops []result.RankLoop) {
	t := newTable("Batches of the transport in each window; mean to p99: messages per batch", nil,
		"rank*", ">window*", ">batches", ">messages", ">mean", ">p50", ">p90", ">p99", ">doorbells", ">credit only")
	for i := range loops {
		for j := range loops[i].Writes {
			w := &loops[i].Writes[j]
			mean := "-"
			if w.Batches > 0 {
				mean = format.Digits(float64(w.Messages) / float64(w.Batches))
			}
			row := []entry{number(loops[i].Rank), number(w.Window), count(w.Batches), count(w.Messages), text(mean)}
			for _, q := range []float64{0.5, 0.9, 0.99} {
				row = append(row, text(batchSize(w.Quantile(q))))
			}
			t.add(append(row, count(w.Doorbells), count(w.CreditOnly))...)
		}
	}
	if len(t.Rows) > 0 {
		p.table(t)
	}
}

func count(n uint64) entry { return text(strconv.FormatUint(n, 10)) }

// batchSize names the sizes of the batches of a bucket.
func batchSize(most int) string {
	switch {
	case most == 0:
		return "-"
	case most <= 2:
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d-%d", most/2+1, most)
}
