package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"shm 12 \\x1b":             "shm 12 \\x1b",
		"größe 大小 3\u00a0µs ∞ 👍":   "größe 大小 3\u00a0µs ∞ 👍",
		"a\x1b[31mb\x00\x07\b":     `a\x1b[31mb\x00\x07\x08`,
		"a\r\nb\tc\x7f":            `a\r\nb\tc\u007f`,
		"\u009b2J\u0085":           `\u009b2J\u0085`,
		"a\u202eb\u2066\u200f":     `a\u202eb\u2066\u200f`,
		"\ufeff\u200b\u2028\u00ad": `\ufeff\u200b\u2028\u00ad`,
		"\U000e0041":               `\udb40\udc41`,
		"a\xffb\xe2\x82":           `a\xffb\xe2\x82`,
		"\uE000\uFFFD":             `\ue000` + "\uFFFD",
	} {
		require.Equal(t, want, Text(in))
	}
}

// document has a string wherever encoding/json can put one.
type document struct {
	Name   string
	List   []string
	Map    map[string]*document
	Named  map[name]name
	Any    any
	Inner  struct{ Name string }
	Bytes  []byte
	Values []float64
	embedded
	own string
}

type embedded struct{ Embedded name }

type name string

func TestJSON(t *testing.T) {
	for text, want := range map[string]bool{
		"{\"a\": [\"b ~\",\n\t1]}\r\n": true,
		`"\u001b[2J"`:                  false,
		`"\n"`:                         false,
		"\"\u0085\"":                   false,
		"\"\x7f\"":                     false,
		`"ä"`:                          false, // printable, but to see this takes Text
	} {
		require.Equal(t, want, JSON([]byte(text)), "%q", text)
	}
}

func TestStrings(t *testing.T) {
	const bad, good = "a\x1b\n", `a\x1b\n`
	make := func(s string) *document {
		d := &document{
			Name: s, List: []string{"x", s}, Map: map[string]*document{s: {Name: s}, "nil": nil},
			Named: map[name]name{name(s): name(s)}, Any: map[string]any{s: []any{s, 1.0}},
			Bytes: []byte(bad), Values: []float64{1}, own: bad,
		}
		d.Inner.Name, d.Embedded = s, name(s)
		return d
	}
	d := make(bad)
	Strings(d)
	require.Equal(t, make(good), d)
	Strings(new(int))
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, part := range []string{"plain\n", "\ta\x1b[2J\u202e µ", "\xc2", "\xb5 \xe2",
		"x\xf0\x9f\x91", "\x8d\r\n", "\xe2\x82"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flush())
	require.Equal(t, "plain\n\ta\\x1b[2J\\u202e µµ \\xe2x👍\\r\n\\xe2\\x82", out.String())
}

// FuzzWriter writes any text in two parts: only printable characters and line breaks come out,
// printable text is unchanged, and a JSON document keeps its meaning.
func FuzzWriter(f *testing.F) {
	f.Add("plain\n", 3)
	f.Add("\x1b]0;title\a\u202e\u009b\U000e0041\xff\x7f", 5)
	f.Add("µ大👍", 4)
	f.Fuzz(func(t *testing.T, text string, at int) {
		write := func(text string) string {
			var out bytes.Buffer
			w := NewWriter(&out)
			cut := min(max(at, 0), len(text))
			for _, part := range []string{text[:cut], text[cut:]} {
				_, err := w.Write([]byte(part))
				require.NoError(t, err)
			}
			require.NoError(t, w.Flush())
			return out.String()
		}
		shown := write(text)
		require.True(t, utf8.ValidString(shown))
		require.NotContains(t, Text(text), "\n")
		for _, r := range shown {
			require.True(t, unicode.IsGraphic(r) || r == '\n' || r == '\t', "%q", r)
		}
		require.Equal(t, shown, write(shown))
		require.Equal(t, Text(text), strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(shown))

		encoded, err := json.Marshal(text)
		require.NoError(t, err)
		var was, is string
		require.NoError(t, json.Unmarshal(encoded, &was))
		require.NoError(t, json.Unmarshal([]byte(write(string(encoded))), &is))
		require.Equal(t, was, is)
	})
}
