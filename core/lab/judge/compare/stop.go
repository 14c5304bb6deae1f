package compare

// StopRule decides from the comparison so far when a test ends that measures its sides in turns.
type StopRule struct {
	// Within is the precision to reach: [Report.Precision] of the first metric's change, as a
	// fraction.
	Within float64
	// MinRepeats and MaxRepeats bound the repeats of each side; MinRepeats is at least 1.
	MinRepeats, MaxRepeats int
}

// Ended reports whether a test is over after n rounds, and whether that is because its change is
// known precisely enough. metrics are those of the comparison.
func (r StopRule) Ended(report *Report, metrics []string, n int) (ended, precise bool) {
	if n < r.MinRepeats {
		return false, false
	}
	precise = r.precise(report, metrics)
	return precise || n >= r.MaxRepeats, precise
}

// precise reports whether the interval of the first metric's change is narrow enough. A metric that
// the schedule of open loops sets does not count.
func (r StopRule) precise(report *Report, metrics []string) bool {
	for _, metric := range metrics {
		for i := range report.Changes {
			if c := &report.Changes[i]; c.Metric == metric && !c.Scheduled {
				return report.Precision(c) <= r.Within
			}
		}
	}
	return false
}
