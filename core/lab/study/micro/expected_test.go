package micro

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
)

// A study takes the time of its readings and of starting what takes them.
func TestExpected(t *testing.T) {
	s := &Study{
		Engine:  new(experiment.Engine),
		Plugin:  &experiment.Plugin{Microbenchmarks: []string{"write", "read"}},
		Request: record.MicroRequest{Duration: time.Second, Connections: []int{1, 10, 100}},
	}
	require.Equal(t, 3*(runner.Start+2*time.Second), s.Expected(3), "all of the plugin")
	s.Request.Names = []string{"write"}
	require.Equal(t, runner.Start+time.Second, s.Expected(1))
	s.Request.Names = []string{record.MicroSetup}
	require.Equal(t, runner.Start+3*time.Second, s.Expected(1), "of each number of connections")
	s.Engine.Place = func(*runner.Request) error { return nil }
	require.Equal(t, runner.Start+3*time.Second, s.Expected(1), "between two hosts")
}
