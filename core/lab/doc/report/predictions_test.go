package report

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// The page of a cell has what the model predicts for changes that were asked for.
func TestPredictions(t *testing.T) {
	s := committed(t)
	one := *s
	one.Cells = nil
	for _, c := range s.Cells {
		if c.Transport() == "shm" {
			one.Cells = []set.Cell{c}
			break
		}
	}
	analysis := func(changes ...string) (string, error) {
		p, err := Build(context.Background(), []*set.Set{&one},
			Options{Compare: compare.Defaults(), WhatIf: changes})
		if err != nil {
			return "", err
		}
		return strings.Join(detailsIn(t, rendered(t, p), p.doc)[0].Parts, ""), nil
	}
	text, err := analysis("in_flight=3")
	require.NoError(t, err)
	require.Contains(t, text, "with in_flight=3 the model expects")
	text, err = analysis()
	require.NoError(t, err)
	require.NotContains(t, text, "the model expects")
	_, err = analysis("in_flite=3")
	var wrong *analyze.ChangeError
	require.ErrorAs(t, err, &wrong)
}
