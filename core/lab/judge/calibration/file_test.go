package calibration

import (
	"bytes"
	"encoding"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	invopop "github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/schematest"
	"transportbench/core/lab/store/set"
)

var schema = schematest.File{
	Path: "schema.json", ID: "urn:transportbench:calibration:2",
	Title: "transportbench calibration, version " + SchemaVersion,
	Of:    new(Document),
	Map: func(typ reflect.Type) *invopop.Schema {
		switch {
		case typ == reflect.TypeFor[set.Set](): // it has its own schema
			return &invopop.Schema{Type: "object"}
		case typ != reflect.TypeFor[time.Time]() &&
			typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
			return &invopop.Schema{Type: "string"} // whatever its kind
		}
		return nil
	},
}

func TestSchemaFile(t *testing.T) { schema.Require(t) }

// fileDocument returns a calibration of one experiment with two cells and two rounds.
func fileDocument() *Document {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := set.New()
	s.CreatedAt = at
	s.Environments = []set.Environment{{Identity: map[string]string{"cpu": "some"},
		Volatile: map[string]string{}}}
	for i := range 2 {
		s.Cells = append(s.Cells, set.Cell{
			Config: map[string]string{"transport": "calibration", "in_flight": "1"},
			Status: set.Measured, StartedAt: at,
			Windows: []set.Window{{StartedAt: at, DistanceBefore: 50, DistanceAfter: 51},
				{StartedAt: at, Launch: 1}},
			Samples: map[string][]float64{result.Throughput: {1000 + float64(i), 1001}},
		})
	}
	return &Document{
		SchemaVersion: SchemaVersion, Kind: Kind, ID: result.NewID(), StartedAt: at, TookS: 1.5,
		Alpha:       0.05,
		Environment: machine.Environment{Identity: machine.Identity{CPU: "some", Arch: "amd64"}},
		Power:       []Power{{Load: "in-flight 1", Repeats: 10}},
		Experiments: []Experiment{{Name: "delay", Unit: "ns", Known: []float64{0, 10}, Set: s}},
	}
}

func TestWrittenCalibrationIsRead(t *testing.T) {
	d := fileDocument()
	path := filepath.Join(t.TempDir(), "made", FileName)
	require.NoError(t, Write(path, d))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	schema.Follows(t, text)
	require.Equal(t, 2, strings.Count(string(text), "\n{\"config\""), "one cell a line")

	again, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, d.normalized(), again)
	require.NoError(t, Write(path, again), "a calibration may be replaced")

	var empty bytes.Buffer
	d.Experiments = nil
	require.NoError(t, d.Encode(&empty))
	schema.Follows(t, empty.Bytes())
	_, err = Parse(empty.Bytes())
	require.NoError(t, err)
}

func TestHostileCalibrationIsRefused(t *testing.T) {
	var good bytes.Buffer
	require.NoError(t, fileDocument().Encode(&good))
	text := good.String()
	edit := func(from, to string) string {
		require.Contains(t, text, from)
		return strings.Replace(text, from, to, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"truncated":      {text[:len(text)/2], "unexpected end"},
		"behind the end": {text + "{}", "after top-level value"},
		"twice": {edit(`"kind": "calibration"`, `"kind": "calibration", "Kind": "run"`),
			"occurs twice"},
		"another kind": {edit(`"kind": "calibration"`, `"kind": "run"`),
			`kind "run" is not "calibration"`},
		"newer":         {edit(`"2.0.0"`, `"3.0.0"`), "newer version"},
		"no version":    {edit(`"schema_version": "2.0.0",`, ``), "no schema_version"},
		"no ID":         {edit(`"id"`, `"nope"`), "id"},
		"no time":       {edit(`"started_at"`, `"nope"`), "started_at"},
		"negative time": {edit(`"took_s": 1.5`, `"took_s": -1`), "took_s"},
		"alpha":         {edit(`"alpha": 0.05`, `"alpha": 1`), "alpha"},
		"no machine":    {edit(`"arch": "amd64"`, `"arch": ""`), "identity"},
		"huge number":   {edit(`[1000,`, `[1e999,`), "out of range"},
		"a name too many": {edit(`"name":"delay"`, `"name":""`),
			"experiments[0]: name is missing"},
		"no set": {edit(`"set":{`, `"other":{`), "experiments[0]: set is missing"},
		"known": {edit(`"known":[0,10]`, `"known":[0]`),
			"known has 1 values for 2 cells"},
		"unlike rounds": {edit(`,{"started_at":"2026-03-04T05:06:07Z","launch":1}`, ``),
			"windows"},
		"missing sample": {edit(`[1000,1001]`, `[1000]`), "has 1 samples for 2 windows"},
		"no transport": {edit(`"transport":"calibration"`, `"other":"calibration"`),
			"config has no transport"},
		"negative distance": {edit(`"bounce_before_ns":50`, `"bounce_before_ns":-50`),
			"negative distance"},
		"file elsewhere": {edit(`"samples"`, `"files":[{"name":"../x","bytes":1}],"samples"`),
			"outside the directory"},
		"text for numbers": {edit(`"known":[0,10]`, `"known":["0",10]`), "line"},
	} {
		path := filepath.Join(t.TempDir(), FileName)
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := Read(path)
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, path, name)
		require.NotContains(t, err.Error(), "\n", name)
	}

	twice := fileDocument()
	twice.Experiments = append(twice.Experiments, twice.Experiments[0])
	require.ErrorContains(t, twice.check(), `two of the name "delay"`)
}

// withConclusions returns a calibration with conclusions of each kind.
func withConclusions() *Document {
	trials := func() []Trials {
		return []Trials{
			{Known: 0.01, Count: 10, Found: 4, Wrong: 1, Share: estimate(0.4, 0.12, 0.74)},
			{Known: 0.05, Count: 10, Found: 9, Share: estimate(0.9, 0.55, 0.99)},
		}
	}
	d := fileDocument()
	d.Recovery = []Recovery{{Quantity: quantityDelay, Unit: "ns", Known: 200,
		Measured: estimate(201, 199, 203), Windows: 20, Tolerance: 10}}
	d.Observer = []Observer{{SampleEvery: 1, InFlight: 1, Change: estimate(-0.1, -0.2, 0),
		Windows: 40}}
	d.Resolution = Resolution{Repeats: 10, Delay: 50, FoundShare: 0.9, Trials: trials()}
	d.FalseVerdicts = []FalseVerdicts{{Method: "diff", Repeats: 10, Comparisons: 200, Tests: 3,
		False: 7, Beyond: 6, Share: estimate(0.035, 0.01, 0.07)}}
	d.Power = []Power{{Load: "echo", Repeats: 10, Trials: trials()}}
	return d
}

// wrongConclusions change a calibration with conclusions into one that none has, and have the
// error.
func wrongConclusions() map[string]func(*Document) {
	return map[string]func(*Document){
		"the interval of 201 has one bound only": func(d *Document) {
			d.Recovery[0].Measured.High = nil
		},
		"the interval of 0.4 has one bound only": func(d *Document) {
			d.Power[0].Trials[0].Share.Low = nil
		},
		"experiments[0]: discarded has 1 values for 2 cells": func(d *Document) {
			d.Experiments[0].Discarded = []int{1}
		},
		"experiments[0]: discarded: [0 -1] has a negative number": func(d *Document) {
			d.Experiments[0].Discarded = []int{0, -1}
		},
	}
}

func TestHostileConclusionsAreRefused(t *testing.T) {
	require.NoError(t, withConclusions().check())
	for want, change := range wrongConclusions() {
		d := withConclusions()
		change(d)
		var text bytes.Buffer
		require.NoError(t, d.Encode(&text))
		_, err := Parse(text.Bytes())
		require.ErrorContains(t, err, want)
	}
}

// show calls what shows a calibration to people.
func show(d *Document) {
	d.Summary()
	for _, repeats := range []int{1, 10, 20, 1000} {
		d.MinEffect("", repeats)
	}
	for i := range d.Recovery {
		d.Recovery[i].Bias().Interval()
		d.Recovery[i].Measured.Interval()
	}
	for _, o := range d.Observer {
		o.Change.Interval()
	}
	for _, f := range d.FalseVerdicts {
		f.Share.Interval()
	}
	for _, p := range append([]Power{{Trials: d.Resolution.Trials}}, d.Power...) {
		smallestFound(p.Trials)
		for _, t := range p.Trials {
			t.Share.Interval()
		}
	}
	minEffectOf([]Found{{Document: d}}, classSockets, 10, 0.01)
}

func FuzzParse(f *testing.F) {
	for _, d := range []*Document{fileDocument(), withConclusions()} {
		var good bytes.Buffer
		require.NoError(f, d.Encode(&good))
		f.Add(good.Bytes())
	}
	for _, change := range wrongConclusions() {
		d := withConclusions()
		change(d)
		var text bytes.Buffer
		require.NoError(f, d.Encode(&text))
		f.Add(text.Bytes())
	}
	f.Add([]byte(`{"schema_version":"2.0.0","kind":"calibration"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			return
		}
		show(d)
		var text bytes.Buffer
		require.NoError(t, d.Encode(&text))
		_, err = Parse(text.Bytes())
		require.NoError(t, err)
	})
}

func TestStatePath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	one, other := machine.Identity{CPU: "one"}, machine.Identity{CPU: "other"}
	path, err := StatePath(one)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "transportbench", "calibration"), filepath.Dir(path))
	again, err := StatePath(one)
	require.NoError(t, err)
	require.Equal(t, path, again)
	another, err := StatePath(other)
	require.NoError(t, err)
	require.NotEqual(t, path, another)

	t.Setenv("XDG_STATE_HOME", "relative")
	t.Setenv("HOME", "/somewhere")
	path, err = StatePath(one)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(path, "/somewhere/.local/state/transportbench/calibration/"),
		path)
}

func TestUnwritableCalibration(t *testing.T) {
	err := Write(filepath.Join("/dev/null", FileName), fileDocument())
	var io *result.IOError
	require.ErrorAs(t, err, &io)
	require.ErrorContains(t, err, "--out")
}
