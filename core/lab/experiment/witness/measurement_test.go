package witness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// A script in place of perftest prints a figure only with the command line that the reading names.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := func(name, columns string) {
		text := "#!/bin/sh\ncase \"$*\" in\n*127.0.0.1) [ \"$1 $2\" = '--size=32 --tx-depth=7' ] " +
			"&& echo '" + columns + "' ;;\n*) exec sleep 60 ;;\nesac\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	script("ib_fake_lat", " 32      5000          1.01           9.02         1.25               "+
		"1.30           0.10            1.90                   3.30")
	script("ib_fake_bw", " 32         5000             0.00               122.07   4.000000")
	beside := func(line ...string) (m transport.Measurement, missing string, err error) {
		m = transport.Measurement{Name: "write", Size: 32, Latency: 1500, Rate: 1e6, Witness: line}
		missing, err = Beside(t.Context(), &m, nil)
		return m, missing, err
	}

	m, missing, err := beside("ib_fake_lat", "--size=32", "--tx-depth=7")
	require.NoError(t, err)
	require.Empty(t, missing)
	require.InDelta(t, 1250, m.WitnessLatency, 1e-6)
	require.Zero(t, m.WitnessRate)
	m, _, err = beside("ib_fake_bw", "--size=32", "--tx-depth=7")
	require.NoError(t, err)
	require.InDelta(t, 4e6, m.WitnessRate, 1e-3)
	require.Zero(t, m.WitnessLatency)

	m, missing, err = beside("ib_nosuch_bw", "--size=32")
	require.NoError(t, err)
	require.Equal(t, "ib_nosuch_bw is not installed: apt install perftest", missing)
	require.Zero(t, m.WitnessRate)
	_, _, err = beside("sleep", "1")
	require.ErrorContains(t, err, `"sleep" is no program of perftest`)
}
