package export

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"transportbench/core/lab/store/set"
)

// HDRLog writes the service times of every repeat of every cell in nanoseconds as an HDR V2 log,
// with one interval per repeat that is tagged with its cell.
func HDRLog(w io.Writer, s *set.Set) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	begun := false
	labels := set.LabelsOf(s.Cells)
	return eachHistogram(s, func(c *set.Cell, at time.Time, window time.Duration,
		h *hdrhistogram.Histogram) error {
		if !begun {
			begun = true
			if err := log.OutputStartTime(at.UnixMilli()); err != nil {
				return err
			}
			if err := log.OutputLegend(); err != nil {
				return err
			}
		}
		h.SetTag(word(labels.Of(c.Config)))
		h.SetStartTimeMs(at.UnixMilli())
		h.SetEndTimeMs(at.Add(window).UnixMilli())
		return log.OutputIntervalHistogram(h)
	})
}

// ErrNoHistograms is the error of [Percentiles] for a cell without them, such as a reading of a
// microbenchmark.
var ErrNoHistograms = errors.New("no histograms")

// Percentiles writes one cell's service times over all repeats as the table that HDR tools call
// .hgrm, in microseconds as they do.
func Percentiles(w io.Writer, s *set.Set, cell int) error {
	one := *s
	one.Cells = s.Cells[cell : cell+1]
	var merged *hdrhistogram.Histogram
	err := eachHistogram(&one, func(_ *set.Cell, _ time.Time, _ time.Duration,
		h *hdrhistogram.Histogram) error {
		if merged == nil {
			merged = h
			return nil
		}
		merged.Merge(h)
		return nil
	})
	if err != nil {
		return err
	}
	if merged == nil {
		return fmt.Errorf("%s: %w", s.Cells[cell].Transport(), ErrNoHistograms)
	}
	const ticks, nsPerMicrosecond = 5, 1000
	_, err = merged.PercentilesPrint(w, ticks, nsPerMicrosecond)
	return err
}

// eachHistogram calls use for the service times of every repeat of every measured cell.
func eachHistogram(s *set.Set, use func(*set.Cell, time.Time, time.Duration,
	*hdrhistogram.Histogram) error) error {
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured {
			continue
		}
		results, err := s.Results(c)
		if err != nil {
			return err
		}
		for _, r := range results {
			for _, repeat := range r.Repeats {
				if repeat.Latency == "" {
					continue
				}
				h, err := hdrhistogram.Decode([]byte(repeat.Latency))
				if err != nil {
					return fmt.Errorf("result %s: repeat %d: decoding histogram: %w", r.ID,
						repeat.Index, err)
				}
				if err := use(c, repeat.StartedAt, time.Duration(r.Config.Duration),
					h); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
