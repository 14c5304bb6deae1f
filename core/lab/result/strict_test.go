package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckJSONNamesThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1 column 1: it is empty"},
		{"{\n \"a\": 1,\n \"a\": 2}", `line 3 column 2: "a" stands twice`},
		{`{"kind": 1, "KIND": 2}`, "column 13: \"KIND\" stands twice"},
		{`{"kind": 1, "k\u0069nd": 2}`, `"kind" stands twice`},
		{`{"a": {"b": 1}, "c": {"b": 1}, "b": NaN}`, `column 37: "NaN}" is no JSON value`},
		{`[1, Infinity]`, "column 5"},
		{`[1e999]`, `column 2: "1e999" is no number`},
		{`[-]`, "no number"},
		{`{"a": 1`, "column 8: it breaks off"},
		{`{"a`, "breaks off in a string"},
		{`{"a"`, "column 5: it breaks off"},
		{`{"a" 1}`, "a colon is missing"},
		{`{a: 1}`, "a name in quotes"},
		{`[1 2]`, "a comma or ']' is missing"},
		{`{} {}`, "column 4: there is more"},
		{"[\"a\nb\"]", "control character"},
		{"[\"\xff\"]", "not UTF-8"},
		{`["\x"]`, "bad escape"},
		{strings.Repeat("[", 1<<20), "nested more than 64 deep"},
		{strings.Repeat(`{"a":`, 1<<20), "nested more than 64 deep"},
	} {
		err := CheckJSON([]byte(c.text))
		require.ErrorContains(t, err, c.want, "%.60s", c.text)
		var place *SyntaxError
		require.ErrorAs(t, err, &place)
	}
}

func TestCheckJSONTakesWhatIsRight(t *testing.T) {
	for _, text := range []string{
		`{}`, ` [] `, `null`, `-1.5e-300`, `18446744073709551615`, `{"a": {"a": [true, false, null, "\"\\\u00e9"]}}`,
	} {
		require.NoError(t, CheckJSON([]byte(text)), text)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"n%d": %d`, i, i))
	}
	require.NoError(t, CheckJSON([]byte("{"+strings.Join(many, ",")+"}")))
	require.ErrorContains(t, CheckJSON([]byte("{"+strings.Join(append(many, `"N7": 1`), ",")+"}")), `"N7" stands twice`)
}

func TestDecodeNamesThePlace(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	require.ErrorContains(t, Decode([]byte("{\n\"a\": \"x\"}"), &v), "line 2 column 9")
	require.NoError(t, Decode([]byte(`{"a": 3}`), &v))
	require.Equal(t, 3, v.A)
	other := errors.New("other")
	require.Equal(t, other, Located(nil, other))
}

// What passes the check, encoding/json can read too, or refuses with a place.
func FuzzCheckJSON(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2e3, "x"], "b": null}`))
	f.Add([]byte(`{"a": 1, "A": 2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := CheckJSON(data)
		if err == nil {
			var v any
			if err := Located(data, json.Unmarshal(data, &v)); err != nil {
				var place *SyntaxError
				require.ErrorAs(t, err, &place)
			}
		} else {
			require.NotContains(t, err.Error(), "\n")
		}
	})
}
