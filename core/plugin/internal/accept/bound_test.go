package accept

import (
	"math"
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// Each number, text, list and map of an answer has a bound or "any": the shape of a type panics if
// a field has none.
func TestEveryFieldHasABound(t *testing.T) {
	for _, answer := range []any{
		record.Report{}, record.Prepared{}, record.Overhead{}, record.Progress{},
		transport.Floor{}, transport.Info{}, transport.Measurement{},
	} {
		require.NotEmpty(t, shapeOf(reflect.TypeOf(answer)))
	}
	require.PanicsWithValue(t, `forgetful.Count has no bound: write "any" if there is none`,
		func() {
			type forgetful struct {
				Count int `json:"count"`
			}
			type outer struct {
				Inner map[string][]*forgetful `json:"inner" bound:"any"`
			}
			shapeOf(reflect.TypeFor[outer]())
		})
}

// The host knows all names in the bounds of a report.
func TestHostKnowsAllNames(t *testing.T) {
	cfg := config.Default()
	cfg.Mix = config.Mix{{Op: config.OpRead, Share: 1}}
	h := (&window{plan: &record.Plan{Rank: 1, Config: cfg}, spec: &record.Window{}}).host()
	own := h.entries["clients[0]"]
	names := regexp.MustCompile(`\$([a-z_]+)`)
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			for i := range typ.NumField() {
				f := typ.Field(i)
				for _, name := range names.FindAllStringSubmatch(f.Tag.Get("bound"), -1) {
					_, number := own.numbers[name[1]]
					_, texts := own.texts[name[1]]
					require.True(t, number || texts, "%s.%s: %s", typ.Name(), f.Name, name[0])
				}
				visit(f.Type)
			}
		}
	}
	visit(reflect.TypeFor[record.Report]())
}

// sample has a field for each word of the language.
type sample struct {
	Any     int               `json:"any" bound:"any"`
	Few     int               `json:"few" bound:"<=3"`
	Real    float64           `json:"real" bound:"<=exact"`
	Pair    uint64            `json:"pair" bound:"=2|4"`
	Known   uint64            `json:"known" bound:"<=$known*few+1"`
	Rest    uint64            `json:"rest" bound:"<=pair-few"`
	Text    string            `json:"text" bound:">=1,<=3"`
	Kind    string            `json:"kind" bound:"=a|b"`
	List    []string          `json:"list" bound:"<=2,each<=3,once"`
	Table   map[string]uint64 `json:"table" bound:"key=$names,each<=9,sum<=10"`
	Structs []sampleEntry     `json:"structs" bound:"each<=5,sum=7,once"`
	Set     *sampleEntry      `json:"set" bound:"set=$set"`
	Struct  sampleEntry       `json:"struct" bound:"count<=4"`
	Left    uint64            `json:"-"`
}

type sampleEntry struct {
	Name  string `json:"name" bound:"any"`
	Count uint64 `json:"count" bound:"<=6"`
}

func TestBounds(t *testing.T) {
	h := &host{numbers: map[string]uint64{"known": 10, "set": 1},
		texts: map[string][]string{"names": {"x", "y"}}}
	valid := func() *sample {
		return &sample{
			Any: -1, Few: 1, Real: 0.5, Pair: 4, Known: 11, Rest: 3, Text: "abc", Kind: "b",
			List:  []string{"a", "b"},
			Table: map[string]uint64{"x": 9, "y": 1}, Structs: []sampleEntry{{"a", 3}, {"b", 4}},
			Set: new(sampleEntry), Left: math.MaxUint64,
		}
	}
	require.NoError(t, h.check("s", valid()))
	empty := valid()
	empty.Structs, empty.List, empty.Table = nil, nil, nil
	require.NoError(t, h.check("s", empty), "an empty list has no sum")
	for _, c := range []struct {
		lie  func(*sample)
		want string
	}{
		{func(s *sample) { s.Few = 4 }, "s.few: 4 is impossible (at most 3)"},
		{func(s *sample) { s.Few = math.MinInt },
			"s.few: -9223372036854775808 is impossible (0 to 2^64)"},
		{func(s *sample) { s.Real = 1<<53 + 2 },
			"s.real: 9.007199254740994e+15 is impossible (at most 9007199254740992)"},
		{func(s *sample) { s.Real = math.NaN() }, "s.real: NaN is impossible (0 to 2^64)"},
		{func(s *sample) { s.Real = math.Inf(1) }, "s.real: +Inf is impossible (0 to 2^64)"},
		{func(s *sample) { s.Pair = 3 }, "s.pair: 3 is impossible (2 or 4)"},
		{func(s *sample) { s.Known = 12 }, "s.known: 12 is impossible (at most 11)"},
		{func(s *sample) { s.Few, s.Pair = 3, 2; s.Rest = 1 },
			"s.rest: 1 is impossible (at most 0)"},
		{func(s *sample) { s.Text = "" }, `s.text: "" is impossible (at least 1 bytes)`},
		{func(s *sample) { s.Text = "abcd" }, `s.text: "abcd" is impossible (at most 3 bytes)`},
		{func(s *sample) { s.Kind = "c" }, `s.kind: "c" is impossible (one of a, b)`},
		{func(s *sample) { s.List = make([]string, 3) },
			"s.list: 3 entries is impossible (at most 2)"},
		{func(s *sample) { s.List[1] = "abcd" },
			`s.list[1]: "abcd" is impossible (at most 3 bytes)`},
		{func(s *sample) { s.List[1] = "a" }, `s.list[1]: "a" is impossible (each once)`},
		{func(s *sample) { s.Table["z"] = 0 }, `s.table: "z" is impossible (one of x, y)`},
		{func(s *sample) { s.Table["x"] = 10 }, `s.table["x"]: 10 is impossible (at most 9)`},
		{func(s *sample) { s.Table["y"] = 2 }, "s.table in sum: 11 is impossible (at most 10)"},
		{func(s *sample) { s.Structs[0].Count = 6 },
			"s.structs[0].count: 6 is impossible (at most 5)"},
		{func(s *sample) { s.Structs[0].Count = 2 }, "s.structs in sum: 6 is impossible (7)"},
		{func(s *sample) { s.Structs[1].Name = "a" },
			`s.structs[1].name: "a" is impossible (each once)`},
		{func(s *sample) { s.Set = nil },
			"s.set: no value is impossible (a value with this configuration)"},
		{func(s *sample) { s.Set.Count = 7 }, "s.set.count: 7 is impossible (at most 6)"},
		{func(s *sample) { s.Struct.Count = 5 }, "s.struct.count: 5 is impossible (at most 4)"},
	} {
		s := valid()
		c.lie(s)
		require.EqualError(t, h.check("s", s), c.want+": the plugin is faulty")
	}
}

func TestLimitsDoNotOverflow(t *testing.T) {
	require.Equal(t, uint64(math.MaxUint64), add(math.MaxUint64, 1))
	require.Equal(t, uint64(math.MaxUint64), multiply(1<<32, 1<<32))
	require.Equal(t, uint64(1<<62), multiply(1<<31, 1<<31))
}
