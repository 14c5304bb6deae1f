package sweep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/transport"
)

// rateOption is the option whose value may be a share of the capacity, such as "70%".
const rateOption = "rate"

// takeShare removes a rate that is a share of the capacity from values and returns the share. It
// returns 0 if there is none.
func takeShare(values map[string]string) (share float64, err error) {
	digits, relative := strings.CutSuffix(strings.TrimSpace(values[rateOption]), "%")
	if !relative {
		return 0, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return 0, &config.Error{Option: rateOption, Problem: fmt.Sprintf(
			"%q is not a share of the capacity, which is above 0%% and at most 100%%", values[rateOption])}
	}
	delete(values, rateOption)
	return percent / 100, nil
}

// addReference sets the reference of a cell that runs at a share of its capacity, and adds the
// reference to the plan if it is not there yet. at has the indices of the plan's cells by ID.
func (p *Plan) addReference(c *Cell, at map[string]int, most func() (Cell, error)) error {
	if c.Share == 0 {
		return nil
	}
	reference, err := most()
	if err != nil {
		return err
	}
	i, known := at[reference.ID]
	if !known {
		i = len(p.Cells)
		at[reference.ID] = i
		p.Cells = append(p.Cells, reference)
	}
	p.Cells[i].isReference = true
	c.Reference = i
	return nil
}

// configOf returns the configuration of a run of cell i. If the rate is a share of the capacity, it
// also returns the capacity, or an error if that was not found.
func (s *sweep) configOf(i int) (config.Config, *result.Capacity, error) {
	cell := &s.plan.Cells[i]
	c := cell.Config
	if cell.Share == 0 {
		return c, nil, nil
	}
	if f, failed := s.failures[cell.Reference]; failed {
		err := fmt.Errorf("the capacity is unknown, because it was not measured: %s", f.Reason)
		if f.Status == set.Unavailable {
			err = fmt.Errorf("%w: %w", transport.ErrUnavailable, err)
		}
		return c, nil, err
	}
	reference := &s.store.cells[cell.Reference]
	if !reference.complete {
		return c, nil, errors.New("the capacity is unknown, because repeats of it are missing")
	}
	for _, w := range reference.cell.Warnings {
		if w.Severity == result.Error {
			return c, nil, fmt.Errorf("the capacity is unknown, because its figures must not be used: check %s failed: %s", w.Check, w.Message)
		}
	}
	capacity, err := capacityOf(reference.cell.Samples[result.Throughput], cell.Share)
	if err == nil {
		c.Rate = config.Rate(capacity.Rate)
		err = c.Validate()
	}
	return c, capacity, err
}

// capacityOf returns the capacity that follows from the throughput of several starts at
// [config.RateMax]. A closed loop would not do: it has no schedule, and its responses come in batches
// that make calls in batches, so that some transports serve more than of an open loop.
//
// The capacity is the lower end of the throughput's interval, because most starts must be able to
// serve it: at a rate that half of the starts do not reach, the response time is that of a queue
// which grows until the window ends.
func capacityOf(throughput []float64, share float64) (*result.Capacity, error) {
	if len(throughput) == 0 || slices.Min(throughput) <= 0 {
		return nil, errors.New("the capacity is unknown, because a window completed nothing")
	}
	c := &result.Capacity{Share: share, Throughput: result.Summarize(result.Throughput, throughput)}
	c.Value = slices.Min(throughput)
	if c.Throughput.Low != nil {
		c.Value = *c.Throughput.Low
	}
	c.Rate = math.Round(share * c.Value)
	return c, nil
}
