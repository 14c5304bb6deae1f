package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// TestSchema checks that the published schema of a line and the reader agree.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../../../docs/replay.schema.json")
	require.NoError(t, err)
	line := func(time, op, key, size string) string {
		return fmt.Sprintf(`{"time":%s,"op":%s,"key":%s,"size":%s}`, time, op, key, size)
	}
	for text, valid := range map[string]bool{
		line("0", `"read"`, `"a"`, "1"):                       true,
		line(`"1.5"`, `"read-modify-write"`, "17", `"100"`):   true,
		line("1.25", `"lookup"`, `"a"`, "0"):                  true,
		line("-1", `"read"`, `"a"`, "1"):                      false,
		line("1e10", `"read"`, `"a"`, "1"):                    false,
		line("1", `"read"`, `"a"`, "-1"):                      false,
		line("1", `"read"`, `"a"`, "2147483648"):              false,
		line("1", `"read"`, `"a"`, "1.5"):                     false,
		line("1", `""`, `"a"`, "1"):                           false,
		`{"time":1,"op":"read","key":"a"}`:                    false,
		`{"time":1,"op":"read","size":1}`:                     false,
		`{"time":1,"op":"set","key":1,"size":1,"client":"c"}`: true,
	} {
		object, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, valid, schema.Validate(object) == nil, "schema: %s", text)
		_, _, _, err = prepare(t, strings.NewReader(text), Options{Format: "requests"})
		require.Equal(t, valid, err == nil, "reader: %s: %v", text, err)
	}
}
