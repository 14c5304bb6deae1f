package report

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/doctor"
)

func TestPaths(t *testing.T) {
	p := &doctor.Paths{Hosts: []string{"a", "b"}}
	p.Add(0, 1, 20_000, 1e9, nil)
	p.Add(1, 0, 80_000, 4e9, nil)
	maps := pathMaps(p)
	require.Equal(t, []pathRow{
		{"a", []pathCell{{}, {Class: "h6", Share: "100%", Text: "20.0 us"}}},
		{"b", []pathCell{{Class: "h2", Share: "25.0%", Text: "80.0 us"}, {}}},
	}, maps[0].Rows, "a shorter time is better")
	require.Equal(t, []pathRow{
		{"a", []pathCell{{}, {Class: "h2", Share: "25.0%", Text: "1.00 GB/s"}}},
		{"b", []pathCell{{Class: "h6", Share: "100%", Text: "4.00 GB/s"}, {}}},
	}, maps[1].Rows, "a higher rate is better")

	p = &doctor.Paths{Hosts: []string{"a", "b"}}
	p.Add(0, 1, 20_000, 1e9, nil)
	p.Add(1, 0, 0, 0, errors.New("no route"))
	for _, m := range pathMaps(p) {
		require.Equal(t, pathCell{Class: "none", Share: "none", Failure: "no route"},
			m.Rows[1].Cells[0])
	}
}
