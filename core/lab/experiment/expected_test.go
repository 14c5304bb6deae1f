package experiment

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/set"
)

// The time that is planned for the windows of the committed sets is the time that they took, within
// 20%. The set with reference tools is left out, because the tools of this machine decide there.
func TestCommittedSetsTookTheTimePlanned(t *testing.T) {
	for _, path := range []string{doctest.Standard, doctest.Latency, doctest.Services,
		doctest.Curves} {
		s, err := set.Load(filepath.Join("../../..", path))
		require.NoError(t, err)
		var first, last time.Time
		planned := time.Duration(0)
		for _, c := range append(s.Cells, s.Reference...) {
			if c.Status != set.Measured {
				continue
			}
			for _, w := range c.Windows {
				if first.IsZero() || w.StartedAt.Before(first) {
					first = w.StartedAt
				}
				if w.StartedAt.After(last) {
					last = w.StartedAt
				}
			}
			one := Cell{Config: *c.Run}
			planned += time.Duration(len(c.Windows)) * one.Expected(runner.Beside{})
		}
		require.InEpsilon(t, last.Sub(first).Seconds(), planned.Seconds(), 0.2, path)
	}
}
