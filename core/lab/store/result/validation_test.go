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

// A document is valid in parts of any size if it is valid as a whole, and the places of violations
// are the same.
func TestValidateInParts(t *testing.T) {
	repeat := func(d map[string]any, i int) map[string]any {
		return d["repeats"].([]any)[i].(map[string]any)
	}
	for name, edit := range map[string]func(map[string]any){
		"nothing": func(map[string]any) {},
		"unknown": func(d map[string]any) {
			d["later"] = []any{map[string]any{"x": strings.Repeat("y", 100)}, 1}
		},
		"first": func(d map[string]any) { delete(repeat(d, 0), "ranks") },
		"last":  func(d map[string]any) { repeat(d, 5)["launch"] = "x" },
		"sample": func(d map[string]any) {
			repeat(d, 3)["samples"].(map[string]any)["throughput"] = "fast"
		},
		"metric": func(d map[string]any) {
			d["summary"].(map[string]any)["throughput"].(map[string]any)["n"] = 1.5
		},
		"list": func(d map[string]any) {
			d["repeats"] = map[string]any{"a": strings.Repeat("y", 300)}
		},
		"object": func(d map[string]any) { d["config"] = []any{strings.Repeat("y", 300)} },
		"item": func(d map[string]any) {
			d["argv"] = []any{"a", strings.Repeat("y", 300),
				3, "b"}
		},
		"missing": func(d map[string]any) { delete(d, "plugin") },
		"escaped name": func(d map[string]any) {
			repeat(d, 2)["samples"].(map[string]any)["a\"\\\n/~b"] = "x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := edited(t, edit)
			whole := validate(text, len(text))
			for _, part := range []int{1, 50, 200, 1000, 5000} {
				err := validate(text, part)
				if whole == nil {
					require.NoError(t, err, part)
					continue
				}
				require.Error(t, err, part)
				require.Equal(t, sorted(whole), sorted(err), part)
			}
		})
	}
}

// sorted returns the violations in an error.
func sorted(err error) []string {
	_, list, _ := strings.Cut(err.Error(), ": ")
	return slices.Sorted(strings.SplitSeq(list, "; "))
}

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
