package experiment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, text string) *Spec {
	t.Helper()
	s, err := ParseSpec("s.yaml", []byte(text))
	require.NoError(t, err)
	return s
}

func cellsOf(t *testing.T, s *Spec) []string {
	t.Helper()
	p, err := Expand(s, known)
	require.NoError(t, err)
	var cells []string
	for i := range p.Cells {
		c := &p.Cells[i].Config
		text := fmt.Sprintf("%s %d %s", c.Transport, c.InFlight, c.ValueSize)
		for _, name := range slices.Sorted(maps.Keys(c.Options)) {
			if value := c.Options[name]; value != "" {
				text += " " + name + "=" + value
			}
		}
		cells = append(cells, text)
	}
	return cells
}

func TestExpand(t *testing.T) {
	require.Equal(t, []string{
		"shm 1 32 ring=a", "shm 1 4KiB ring=a", "shm 8 32 ring=a", "shm 8 4KiB ring=a",
		"erpc 1 32", "erpc 1 4KiB", // erpc does not have the option ring
		"erpc 64 32",
	}, cellsOf(t, parse(t, `
base: {value-size: 32}
axes:
  transport: [shm, erpc]
  in-flight: [1, 8]
  payload: [32, 4KiB]
  ring: a
exclude:
  - {transport: erpc, in-flight: 8}
include:
  - {transport: erpc, in-flight: 64}
`)))
	require.Equal(t, []string{"shm 1 32 ring=x", "shm 1 32 ring=y", "erpc 1 32 mtu=9"}, cellsOf(t, parse(t, `
axes: {transport: [shm, erpc], shm.ring: [x, y]}
base: {set: {mtu: 9}}
`)))
	require.Equal(t, []string{"shm 1 32 ring=z", "erpc 1 32"}, cellsOf(t, parse(t, `
axes: {transport: [shm, erpc]}
base: {set.ring: z}
`)), "also if a general option has the name")
	require.Equal(t, []string{"erpc 1 32", "erpc 4 1KiB", "shm 1 32", "shm 4 1KiB"}, cellsOf(t, parse(t, `
base: {transport: all}
axes:
  load:
    - {in-flight: 1}
    - {in-flight: 4, value_size: 1KiB}
`)))
	require.Equal(t, []string{"shm 1 32"}, cellsOf(t, parse(t, "repeats: 3\norder: sequential\n")))
}

func TestSpecOfEveryFormatIsTheSame(t *testing.T) {
	yaml := parse(t,
		"repeats: 3\nlimit: 1m\nbase: {in-flight: 4}\naxes: {transport: [shm, erpc]}\n")
	toml, err := ParseSpec("s.toml", []byte("repeats = 3\nlimit = \"1m\"\n[base]\nin-flight = "+
		"4\n[axes]\ntransport = [\"shm\", \"erpc\"]\n"))
	require.NoError(t, err)
	json, err := ParseSpec("s.json",
		[]byte(
			`{"repeats": 3, "limit": "1m", "base": {"in-flight": 4}, "axes": {"transport": ["shm", "erpc"]}}`))
	require.NoError(t, err)
	require.Equal(t, yaml, toml)
	require.Equal(t, yaml, json)
	require.Equal(t, time.Minute, yaml.Limit)

	flags := NewSpec()
	flags.Repeats, flags.Limit = 3, time.Minute
	flags.Override(map[string][]string{"transport": {"shm", "erpc"}, "in-flight": {"4"}})
	fromFile, err := Expand(yaml, known)
	require.NoError(t, err)
	fromFlags, err := Expand(flags, known)
	require.NoError(t, err)
	require.Equal(t, fromFile, fromFlags)
}

// JSON may have no key twice, as YAML may not.
func TestKeyTwice(t *testing.T) {
	for text, key := range map[string]string{
		`{"base": {"keys": 1}, "axes": {"in-flight": [1, 2]}, "base": {}}`:     "base",
		`{"base": {"keys": 1, "seed": 2, "keys": 3}}`:                          "keys",
		`{"include": [{"seed": 1}, {"seed": 2}, {"set": {"a": 1, "a": "b"}}]}`: "a",
	} {
		_, err := ParseSpec("s.json", []byte(text))
		require.ErrorContains(t, err, fmt.Sprintf("the name %q occurs twice in one object", key))
	}
	_, err := ParseSpec("s.json",
		[]byte(`{"base": {"keys": "seed"}, "include": [{"seed": 1}, {"seed": 2}]}`))
	require.NoError(t, err)
}

// What an option of an axis replaces in the base has no effect, and the plan says so.
func TestReplacedBase(t *testing.T) {
	for text, want := range map[string][]string{
		"base: {clients: 4, seed: 2}\naxes: {class: [\"rpc:64B\"]}": {
			"base: clients=4 has no effect with class=rpc:64B"},
		"base: {topology: client-server, service: echo}\naxes: {traffic: [all-to-all, fan-out]}": {
			"base: topology=client-server has no effect with traffic=all-to-all"},
		"base: {mix: \"read:0.5,insert:0.5\"}\naxes: {service: [store, echo]}": {
			"base: mix=read:0.5,insert:0.5 has no effect with service=echo"},
		"base: {clients: 1}\naxes: {class: [\"rpc:64B\"], in-flight: [1]}": nil,
		"base: {clients: 4}\naxes: {clients: [1, 2]}":                      nil,
	} {
		p, err := Expand(parse(t, text), known)
		require.NoError(t, err, text)
		require.Equal(t, want, p.Notes, text)
	}
}

func TestBadSpecs(t *testing.T) {
	for text, want := range map[string]string{
		"axis: {a: 1}":                `unknown key "axis"; did you mean "axes"?`,
		"repeats: 0":                  "repeats: 0 is out of range",
		"repeats: many":               "repeats:",
		"order: interleavd":           `did you mean "interleaved"?`,
		"limit: -1s":                  "negative",
		"limit: soon":                 "limit:",
		"axes: [a]":                   "axes: want a table",
		"axes: {in-flight: []}":       "the axis has no values",
		"axes: {in-flight: [[1]]}":    "want single values or tables",
		"exclude: {a: b}":             "exclude: want a list",
		"base: {a: [1]}":              "a: want a single value",
		"base: {in-flight: 1":         "yaml",
		"base: {}\nbase: {}":          `line 2: mapping key "base" already defined at line 1`,
		"axes: {in-flight: [x]}":      "not a whole number",
		"axes: {colour: [red]}":       `unknown option "colour"`,
		"base: {repeats: 3}":          "repeats: all cells have the same number",
		"base: {launches: 1}":         "launches: a sweep starts the ranks for each repeat",
		"axes: {transport: [tcpx]}":   `no plugin for "tcpx"`,
		"exclude: [{in-flight: 9}]":   "exclude: item 1 matches no cell",
		"exclude: [{transport: shm}]": "no cell is left",
		"axes: {in-flight: [" + strings.Repeat("1,", 99_999) +
			"1], value-size: [1, 2]}": "more than",
	} {
		s, err := ParseSpec("s.yaml", []byte(text))
		if err == nil {
			_, err = Expand(s, known)
		}
		require.ErrorContains(t, err, want, "%.60s", text)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := ParseSpec("s.txt", nil)
	require.ErrorContains(t, err, "must end in .yaml")
}

func FuzzParse(f *testing.F) {
	f.Add("axes: {transport: [shm, erpc], in-flight: [1, 2]}\nexclude: [{in-flight: 2}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec("s.yaml", []byte(text))
		if err == nil {
			_, _ = Expand(s, known)
		}
	})
}

func TestOrder(t *testing.T) {
	p := &Plan{Cells: make([]Cell, 20), Repeats: 3, Order: Interleaved, Seed: 1}
	order := p.runs()
	require.Len(t, order, 60)
	var rounds [3][]int
	for i, s := range order {
		require.Equal(t, i/20, s.repeat, "a round ends before the next begins")
		rounds[s.repeat] = append(rounds[s.repeat], s.cell)
	}
	require.NotEqual(t, rounds[0], rounds[1])
	require.ElementsMatch(t, rounds[0], rounds[1])
	require.Equal(t, order, p.runs(), "the seed decides")
	p.Seed = 2
	require.NotEqual(t, order, p.runs())
	p.Order = Sequential
	require.Equal(t, run{0, 1}, p.runs()[1])
}
