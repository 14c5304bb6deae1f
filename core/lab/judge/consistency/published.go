package consistency

import (
	"fmt"

	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// Row returns the inconsistencies of a row of published figures, even if it has a Contradiction.
func Row(r *published.Row) []result.Finding {
	list := claims(r.Work, checkWork)
	list = append(list, claims(r.Loops, checkLoop)...)
	list = append(list, claims(r.Sums, checkSum)...)
	list = append(list, claims(r.Limits, checkLimit)...)
	list = append(list, claims(r.Ratios, checkRatio)...)
	list = append(list, claims(r.Timed, checkTimed)...)
	list = append(list, claims(r.Lookups, checkLookups)...)
	load, err := loadOf(r.Config)
	if err != nil {
		list = append(list, failed("config", result.Warning, 0, 0, "%v", err)...)
	}
	f := figures{load: load, values: map[string]float64{}}
	for name, figure := range r.Metrics {
		f.values[name] = figure.Value
	}
	return append(list, f.check()...)
}

func claims[T any](of []T, check func(T) []result.Finding) (list []result.Finding) {
	for _, claim := range of {
		list = append(list, check(claim)...)
	}
	return list
}

// Document returns the problems of a document of published figures as a whole.
func Document(d *published.Document) []result.Finding {
	var list []result.Finding
	if d.Percentiles != nil {
		list = checkPercentiles(*d.Percentiles)
	}
	expected := 0
	for i := range d.Rows {
		if d.Rows[i].Expected {
			expected++
		}
	}
	if expected > 0 {
		list = append(list, failed("expected", result.Warning, float64(expected), 0,
			"the authors expect %d of %d rows and measured none of those; a factor between two "+
				"of them is an expectation too", expected, len(d.Rows))...)
	}
	return list
}

// contradicted returns an error if the figures of a row contradict each other and it does not say
// so.
func contradicted(r *published.Row, found []result.Finding) error {
	for _, c := range found {
		if c.Severity == result.Error && r.Contradiction == "" {
			return fmt.Errorf("row %q: %s; correct it, or say so in the row's contradiction",
				r.Name, c.Message)
		}
	}
	return nil
}
