package perf

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/record"
)

// Thread is a thread that perf saw.
type Thread struct {
	Rank int    `json:"rank"`   // -1 for a thread that does not poll
	Name string `json:"thread"` // "daemon 0" or "client 0", else the kernel's name
	TID  int    `json:"tid"`

	polling record.Thread
}

func newThread(comm string, tid int) Thread {
	p, ok := record.ParseThreadName(comm)
	if !ok {
		return Thread{Rank: -1, Name: comm, TID: tid}
	}
	t := Thread{Rank: p.Rank, Name: fmt.Sprintf("client %d", p.Client), TID: tid, polling: p}
	if p.IsDaemon() {
		t.Name = fmt.Sprintf("daemon %d", p.Daemon)
	}
	return t
}

// Polls reports whether t is a daemon or a client.
func (t *Thread) Polls() bool { return t.Rank >= 0 }

// compare orders polling threads by rank, daemons first; the others follow.
func (t *Thread) compare(other *Thread) int {
	if t.Polls() != other.Polls() {
		return cmp.Compare(other.Rank, t.Rank) // that of a thread that does not poll is -1
	}
	return cmp.Or(cmp.Compare(t.Rank, other.Rank),
		cmp.Compare(t.polling.Client, other.polling.Client),
		cmp.Compare(t.polling.Daemon, other.polling.Daemon))
}

// ThreadEvents are the events of one thread.
type ThreadEvents struct {
	Thread
	// Counts has the events by perf's name, such as LLC-loads. Those that the processor lacks, or
	// that were never scheduled, are missing.
	Counts map[string]uint64 `json:"counts"`
	// Ratios has those of [Ratios] whose events were counted.
	Ratios map[string]float64 `json:"ratios"`
}

// Ratios are the ratios of events, each of a pair that the processor counts at the same time.
var Ratios = []struct{ Name, Of, Per string }{
	{"ipc", "instructions", "cycles"},
	{"l1_miss", "L1-dcache-load-misses", "L1-dcache-loads"},
	{"llc_miss", "LLC-load-misses", "LLC-loads"},
	{"cache_miss", "cache-misses", "cache-references"},
}

// statEvents returns the events in groups, whose members are counted at the same time also if the
// kernel multiplexes the counters.
func statEvents() string {
	var groups []string
	for _, r := range Ratios {
		groups = append(groups, "{"+r.Per+","+r.Of+"}")
	}
	return strings.Join(groups, ",")
}

// separator is that of the fields. Names of events have commas.
const separator = ";"

// threadField is the first field with --per-thread: the thread's name and its ID.
var threadField = regexp.MustCompile(`^\s*(.*)-(\d+)\s*$`)

// ParseStat reads what perf stat -x ';' --per-thread prints (CSV FORMAT in perf-stat(1)). Polling
// threads come first, by rank, and the others follow, those with the most cycles first.
func ParseStat(text []byte) ([]ThreadEvents, error) {
	threads := map[int]*ThreadEvents{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The thread, the value, its unit, the event, and more.
		fields := strings.Split(line, separator)
		if len(fields) < 4 {
			return nil, fmt.Errorf("perf stat printed %q, which is no reading of a thread", line)
		}
		found := threadField.FindStringSubmatch(fields[0])
		if found == nil {
			return nil, fmt.Errorf("perf stat printed %q, which begins with no thread", line)
		}
		tid, err := strconv.Atoi(found[2])
		if err != nil {
			return nil, fmt.Errorf("perf stat printed %q: %w", line, err)
		}
		t := threads[tid]
		if t == nil {
			t = &ThreadEvents{Thread: newThread(found[1], tid), Counts: map[string]uint64{},
				Ratios: map[string]float64{}}
			threads[tid] = t
		}
		if strings.HasPrefix(fields[1], "<") { // <not counted> or <not supported>
			continue
		}
		value, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("perf stat printed %q: %q is no count", line, fields[1])
		}
		t.Counts[eventName(fields[3])] += value // of both kinds of cores, if there are two
	}
	counted := false
	var list []ThreadEvents
	for _, t := range threads {
		for _, r := range Ratios {
			of, has := t.Counts[r.Of]
			if per := t.Counts[r.Per]; has && per > 0 {
				t.Ratios[r.Name] = float64(of) / float64(per)
			}
		}
		counted = counted || len(t.Counts) > 0
		list = append(list, *t)
	}
	if !counted {
		return nil, errors.New("perf stat counted no event: the processor has none of them, or " +
			"another profiler holds its counters")
	}
	slices.SortFunc(list, func(a, b ThreadEvents) int {
		return cmp.Or(a.compare(&b.Thread), cmp.Compare(b.Counts["cycles"], a.Counts["cycles"]),
			cmp.Compare(a.TID, b.TID))
	})
	return list, nil
}

// eventName returns the name of an event without its modifiers (cycles:u) and its unit
// (cpu_core/cycles/).
func eventName(text string) string {
	if _, inside, found := strings.Cut(text, "/"); found {
		text, _, _ = strings.Cut(inside, "/")
	}
	text, _, _ = strings.Cut(text, ":")
	return text
}
