package check

import (
	"fmt"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// A window with a stall of the cause no_traffic that takes this share of it and this long does not
// measure the transport.
const (
	silentShare = 0.1
	minSilent   = 10 * time.Millisecond
)

// checkTraffic finds windows in which clients polled and no response came: packets were lost, or a
// link was down. Its value is the largest share of a window.
func checkTraffic(e Evidence) result.Finding {
	f := result.Finding{OK: true, Limit: silentShare}
	windows := 0
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		elapsed := uint64(0)
		for _, c := range r.Clients() {
			elapsed = max(elapsed, c.ElapsedNS)
		}
		silent := false
		for _, s := range r.Stalls {
			share := float64(s.ForNS) / float64(max(elapsed, 1))
			if s.Cause != result.CauseNoTraffic || share <= silentShare ||
				time.Duration(s.ForNS) < minSilent {
				continue
			}
			silent = true
			if share > f.Value {
				f.Value = share
				f.Message = fmt.Sprintf("for %v, from %v of window %d, no response came to %s",
					time.Duration(s.ForNS).Round(time.Millisecond),
					time.Duration(s.AtNS).Round(time.Millisecond), i+1, e.threadsOf(s.Threads))
			}
		}
		if silent {
			windows++
		}
	}
	if f.OK = windows == 0; f.OK {
		f.Message = "responses came throughout each window"
		return f
	}
	f.Message += fmt.Sprintf("; %d of %d windows have such a stall: %s", windows,
		len(e.Result.Repeats), say(&f.Effect, "their throughput is that of a broken path"))
	f.Message += "; " + say(&f.Remedy, "look for lost packets and links that were down at the time")
	return f
}

// threadsOf names the first of the threads of a stall with its host, and counts the others.
func (e Evidence) threadsOf(threads []string) string {
	if len(threads) == 0 {
		return "the clients"
	}
	text := threads[0]
	for _, p := range e.Result.Placement {
		for client := range p.CPUs {
			thread := record.Thread{Rank: p.Rank, Daemon: -1, Client: client}
			if p.Host != "" && thread.String() == threads[0] {
				text += " on " + p.Host
			}
		}
	}
	if more := len(threads) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
