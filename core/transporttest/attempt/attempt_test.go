package attempt

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	for _, c := range []struct {
		name   string
		run    func(*T)
		failed bool
		says   string
	}{
		{"passes", func(t *T) {}, false, ""},
		{"fails", func(t *T) { t.Fatalf("wrong by %d", 7) }, true, "wrong by 7"},
		{"fails and goes on", func(t *T) { t.Errorf("first"); t.Errorf("second") }, true,
			"first\nsecond"},
		{"panics", func(t *T) { panic("so be it") }, true, "panicked: so be it"},
		{"hangs", func(t *T) { <-forever }, true, "did not return within its limit of 50ms"},
		{"waits too long", func(t *T) {
			for spins := 0; ; spins++ {
				t.Pause(spins, "number %d", 3)
			}
		}, true, "timed out waiting for number 3"},
		{"fails in a thread", func(t *T) {
			t.Parallel(func() { t.Fatalf("there") },
				func() {})
		}, true, "there"},
		{"panics in a thread", func(t *T) { t.Parallel(func() { panic("there") }) }, true,
			"panicked: there"},
		{"fails in a cleanup", func(t *T) { t.Cleanup(func() { t.Errorf("late") }) },
			true, "late"},
		{"cleans up after a failure, last first", func(t *T) {
			t.Cleanup(func() { t.Errorf("third") })
			t.Cleanup(func() { t.Errorf("second") })
			t.Fatalf("first")
		}, true, "first\nsecond\nthird"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed, lines := Run(50*time.Millisecond, c.run)
			require.Equal(t, c.failed, failed)
			require.Contains(t, strings.Join(lines, "\n"), c.says)
		})
	}
}
