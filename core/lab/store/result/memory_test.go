package result

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/jsondoc"
)

// A few bytes of JSON may become hundreds in memory.
func TestDecodeRefusesWhatTakesTooMuchMemory(t *testing.T) {
	const size = 4 << 20
	list := func(item string) string {
		return "[" + strings.Repeat(item+",", size/(len(item)+1)) + item + "]"
	}
	for name, c := range map[string]struct {
		text string
		into any
	}{
		"structs":      {`{"repeats": ` + list("{}") + `}`, new(Result)},
		"nested":       {`{"repeats": [{"ranks": ` + list("{}") + `}]}`, new(Result)},
		"folded names": {`{"REPEATS": ` + list("{}") + `}`, new(Result)},
		"escaped name": {`{"repeat\u0073": ` + list("{}") + `}`, new(Result)},
		"long s":       {`{"repeatſ": ` + list("{}") + `}`, new(Result)},
		"list":         {list("{}"), new([]Result)},
		"map": {`{"summary": {` + strings.TrimSuffix(numbered(size/8, `"%x":{},`), ",") +
			`}}`, new(Result)},
		"any": {list("{}"), new(any)},
	} {
		t.Run(name, func(t *testing.T) {
			err := jsondoc.Decode([]byte(c.text), c.into)
			var place *jsondoc.SyntaxError
			require.ErrorAs(t, err, &place)
			require.Regexp(t,
				`^line 1 column \d+: too many items: a file of [45] MiB may take 7[24] MiB of memory, and the part before this one takes more$`, err.Error())
		})
	}
	require.NoError(t, jsondoc.Decode([]byte(`{"later": `+list("{}")+`}`), new(Result)),
		"unknown fields are not decoded")
	require.NoError(t,
		jsondoc.Decode([]byte(`{"argv": [`+strings.Repeat(`"a string of a common length",`, size/30)+
			`""]}`), new(Result)))
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// What the weight counts is close to what a result takes.
func TestWeightOfAResult(t *testing.T) {
	r := sample(t)
	r.Repeats = slices.Repeat(r.Repeats, 100)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Greater(t, len(text), 256<<10)
	require.NoError(t, jsondoc.Decode(text, new(Result)))
}
