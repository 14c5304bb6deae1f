package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// longestStalls is how many stalls are listed.
const longestStalls = 8

// causes describes the causes of stalls.
var causes = map[result.Cause]string{
	result.CauseSteal:     "the hypervisor ran something else",
	result.CauseMachine:   "several ranks at once, so the machine",
	result.CauseSwitch:    "the scheduler ran another thread",
	result.CauseCollector: "the Go runtime collected garbage",
	result.CausePageFault: "a page fault",
	result.CauseNoTraffic: "no response came although the threads ran: packets were lost, or a " +
		"link was down",
	result.CauseUnknown: "unknown cause",
}

// CauseText describes the cause of a stall.
func CauseText(c result.Cause) string { return cmp.Or(causes[c], string(c)) }

// stalls returns the stalls of all repeats, or nil if there were none.
func (e *measurements) stalls() *Stalls {
	s := &Stalls{Causes: map[result.Cause]float64{}}
	for i := range e.repeats {
		for _, stall := range e.repeats[i].Stalls {
			s.Count++
			s.Total += float64(stall.ForNS)
			s.Causes[stall.Cause] += float64(stall.ForNS)
			s.Longest = append(s.Longest, Stall{
				Repeat: i, At: float64(stall.AtNS), Time: float64(stall.ForNS),
				Threads: stall.Threads, Cause: stall.Cause,
				Message: fmt.Sprintf("%s, %s into window %d: %s: %s",
					format.Time(float64(stall.ForNS)), format.Time(float64(stall.AtNS)),
					i+1, strings.Join(stall.Threads, ", "), CauseText(stall.Cause)),
			})
		}
	}
	if s.Count == 0 {
		return nil
	}
	slices.SortStableFunc(s.Longest, func(a, b Stall) int { return cmp.Compare(b.Time, a.Time) })
	s.Longest = s.Longest[:min(len(s.Longest), longestStalls)]
	return s
}

// processorTime returns nil if the processes' time is unknown.
func (e *measurements) processorTime() *ProcessorTime {
	p := &ProcessorTime{
		Threads: e.sample(result.CPUPerOp), Busy: e.sample(result.BusyPerOp),
		Process: e.sample(result.ProcessCPUPerOp), Kernel: e.sample(result.KernelPerOp),
	}
	if p.Process == 0 {
		return nil
	}
	p.Message = fmt.Sprintf("processor time of an operation: %s of the polling threads",
		format.Time(p.Threads))
	if p.Busy > 0 {
		p.Message += fmt.Sprintf(", %s of it in iterations that found work", format.Time(p.Busy))
	}
	p.Message += fmt.Sprintf("; %s of the processes, with helper threads; %s of the kernel",
		format.Time(p.Process), format.Time(p.Kernel))
	return p
}
