package machine

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that waits for a processor or a disk keeps its time.
func TestPatience(t *testing.T) {
	const tick = 50 * time.Millisecond
	p := patience{interval: tick}
	p.sample(tick, activity{})
	require.Equal(t, tick, p.used, "it slept")
	p.sample(tick, activity{waiting: true})
	require.Equal(t, tick, p.used, "it had no processor")
	p.sample(tick, activity{waiting: true, cpu: tick / 5})
	require.Equal(t, tick+tick/5, p.used, "it had a fifth of a processor")
	p.sample(tick, activity{waiting: true, cpu: 10 * tick})
	require.Equal(t, 2*tick+tick/5, p.used, "several threads computed")
	p.sample(time.Hour, activity{cpu: 10 * tick})
	require.Equal(t, 3*tick+tick/5, p.used, "the sample is late")
}

func TestUsesUp(t *testing.T) {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
	}
	a := activityOf(os.Getpid())
	require.True(t, a.waiting, "this thread runs")
	require.Positive(t, a.cpu)
	require.Equal(t, activity{}, activityOf(1<<23), "a higher number than any process has")
	require.True(t, UsesUp(t.Context(), 1<<23, 10*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, UsesUp(ctx, os.Getpid(), time.Hour))
}
