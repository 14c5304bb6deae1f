package suggest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

func TestParseOptions(t *testing.T) {
	schema := []transport.Option{
		{Name: "ring", Type: transport.TypeString, Default: "lamport",
			Allowed: []string{"lamport", "onesided"}},
		{Name: "slots", Type: transport.TypeInt, Default: "4", Min: 4, Max: 1024},
	}
	for problem, raw := range map[string]map[string]string{
		`unknown; did you mean "ring"?`: {"rnig": "x"},
		"unknown":                       {"zzzzzzzz": "x"},
		`"onesded" is not one of lamport, onesided; did you mean "onesided"?`: {"ring": "onesded"},
		`"one" is not one of lamport, onesided; did you mean "onesided"?`:     {"ring": "one"},
		"1 is out of range (4 to 1024)":                                       {"slots": "1"},
	} {
		_, err := ParseOptions(schema, raw)
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, problem, wrong.Problem)
	}
	values, err := ParseOptions(schema, map[string]string{"slots": "8"})
	require.NoError(t, err)
	require.Equal(t, 8, values.Int("slots"))
}
