package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	m, err := Read([]byte("0, 3,1\r\n0,0,0\r\n4,0,0\r\n\n"))
	require.NoError(t, err)
	require.Equal(t, "0:3:1/0:0:0/4:0:0", m.String())
	again, err := Parse(m.String())
	require.NoError(t, err)
	require.Equal(t, m, again)
	require.Equal(t, []float64{0.5, 0, 0.5}, []float64{m.Share(0), m.Share(1), m.Share(2)})
	require.Equal(t, []uint64{1, 1, 1, 2}, m.Targets(0, 4))
	require.Empty(t, m.Targets(1, 4))
	huge, err := Read([]byte("0,1e307,3e307\n1,0,0\n1,0,0"))
	require.NoError(t, err)
	require.Len(t, huge.Targets(0, 1024), 1024)
	m[0][2] = 1e-6
	require.Equal(t, []uint64{1, 1, 1, 1, 2}, m.Targets(0, 4), "a small weight is called too")
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "2 to 64 rows, and not 1",
		"0,1\n":            "2 to 64 rows, and not 1",
		"0,1\n1":           "row 2 has 1 columns, and the matrix 2 rows",
		"a,b\n0,1\n1,0":    "row 1 has 2 columns, and the matrix 3 rows",
		"0,-1\n1,0":        `row 1, column 2: "-1" is not a weight`,
		"0,NaN\n1,0":       `row 1, column 2: "NaN" is not a weight`,
		"0,1e999\n1,0":     `row 1, column 2: "1e999" is not a weight`,
		"0,1\n1,2":         "row 2, column 2: no rank calls itself",
		"0,0\n0,0":         "the sum of the weights is 0",
		"0,1e308\n1e308,0": "the sum of the weights is +Inf",
	} {
		_, err := Read([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}
