package experiment

import (
	"os"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
)

// Size returns about the most bytes that a sweep of p adds to dir, which may have a part of it.
func (p *Plan) Size(dir string) int64 {
	const (
		block = 4 << 10 // that a file or a directory has in part
		// directory of its repeats, result, and what plan and index have
		perCell = 2*block + (3 << 10)
		indexed = 1 << 10 // of a repeat
	)
	s := store{dir: dir, plan: p}
	var size, results, repeats, largestResult, largestRepeats int64
	for i := range p.Cells {
		c := &p.Cells[i]
		size += perCell + int64(p.Repeats)*indexed
		if c.Unavailable != "" || exists(s.cellPath(i)) {
			continue
		}
		load := c.Config
		if c.Share > 0 {
			load.Rate = config.RateMax
		}
		parts := int64(0)
		for r := range p.Repeats {
			if !exists(s.repeatPath(i, r)) {
				parts += runner.ResultSize(&load, 1) + block
			}
		}
		merged := runner.ResultSize(&load, p.Repeats)
		results, largestResult = results+merged, max(largestResult, merged)
		repeats, largestRepeats = repeats+parts, max(largestRepeats, parts)
	}
	// The repeats of a cell stay until they are merged into its result: with rounds, those of all
	// cells.
	if p.Order == Sequential {
		return size + results + largestRepeats
	}
	return size + repeats + largestResult
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
