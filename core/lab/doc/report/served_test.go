package report_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/report"
	"transportbench/core/lab/doc/report/serve"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/compare"
)

func init() {
	report.Serve = func(t testing.TB, dir string) (url string, stop func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		s, err := serve.New(ctx, dir, report.Options{Compare: compare.Defaults()},
			experiment.ProgressOf(), 20*time.Millisecond)
		require.NoError(t, err)
		l, err := serve.Listen(0)
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, l) }()
		return "http://" + l.Addr().String(), func() {
			cancel()
			require.NoError(t, <-served)
		}
	}
}
