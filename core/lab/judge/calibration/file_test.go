package calibration

import (
	"bytes"
	"encoding"
	"math"
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
	nan, minus, two := math.NaN(), -1.0, 2.0
	return map[string]func(*Document){
		"recovery[0]: measured: the interval has one bound only": func(d *Document) {
			d.Recovery[0].Measured.High = nil
		},
		"recovery[0]: measured: the interval from 204 to 203 is empty": func(d *Document) {
			*d.Recovery[0].Measured.Low = 204
		},
		"recovery[0]: measured: [NaN 199 203] is out of range": func(d *Document) {
			d.Recovery[0].Measured.Value = nan
		},
		"recovery[0]: measured: [201 NaN 203] is out of range": func(d *Document) {
			d.Recovery[0].Measured.Low = &nan
		},
		"recovery[0]: known: NaN is not finite": func(d *Document) {
			d.Recovery[0].Known = nan
		},
		"recovery[0]: known: 0 is not a delay": func(d *Document) {
			d.Recovery[0].Known = 0
		},
		"recovery[0]: tolerance: -1 is out of range": func(d *Document) {
			d.Recovery[0].Tolerance = -1
		},
		"recovery[0]: windows: -1 is negative": func(d *Document) {
			d.Recovery[0].Windows = -1
		},
		"observer[0]: change: the interval has one bound only": func(d *Document) {
			d.Observer[0].Change.Low = nil
		},
		"observer[0]: sample_every: 0 is not positive": func(d *Document) {
			d.Observer[0].SampleEvery = 0
		},
		"observer[0]: in_flight -1": func(d *Document) {
			d.Observer[0].InFlight = -1
		},
		"observer[0]: in_flight 1 or windows -1 is negative": func(d *Document) {
			d.Observer[0].Windows = -1
		},
		"resolution: repeats: 0 is not positive": func(d *Document) {
			d.Resolution.Repeats = 0
		},
		"resolution: delay_ns: -1 is out of range": func(d *Document) {
			d.Resolution.Delay = -1
		},
		"resolution: found_share: 2 is out of range": func(d *Document) {
			d.Resolution.FoundShare = 2
		},
		"resolution: trials[1]: known: 0.001 is below the one before, 0.01": func(d *Document) {
			d.Resolution.Trials[1].Known = 0.001
		},
		"power[0]: repeats: 0 is not positive": func(d *Document) {
			d.Power[0].Repeats = 0
		},
		"power[0]: trials[0]: known: NaN is not finite": func(d *Document) {
			d.Power[0].Trials[0].Known = nan
		},
		"power[0]: trials[0]: count: -1 is negative": func(d *Document) {
			d.Power[0].Trials[0].Count = -1
		},
		"power[0]: trials[0]: found 11": func(d *Document) {
			d.Power[0].Trials[0].Found = 11
		},
		"power[0]: trials[0]: found -1": func(d *Document) {
			d.Power[0].Trials[0].Found = -1
		},
		"power[0]: trials[0]: found 4, wrong 11 or beyond 0": func(d *Document) {
			d.Power[0].Trials[0].Wrong = 11
		},
		"power[0]: trials[0]: share: [0.4 -1 0.74] is out of range": func(d *Document) {
			d.Power[0].Trials[0].Share.Low = &minus
		},
		"power[0]: trials[0]: share: the interval has one bound only": func(d *Document) {
			d.Power[0].Trials[0].Share.High = nil
		},
		"false_verdicts[0]: share: [2 0.01 0.07] is out of range": func(d *Document) {
			d.FalseVerdicts[0].Share.Value = 2
		},
		"false_verdicts[0]: share: [0.035 0.01 2] is out of range": func(d *Document) {
			d.FalseVerdicts[0].Share.High = &two
		},
		"false_verdicts[0]: repeats: 0 is not positive": func(d *Document) {
			d.FalseVerdicts[0].Repeats = 0
		},
		"false_verdicts[0]: comparisons -1": func(d *Document) {
			d.FalseVerdicts[0].Comparisons = -1
		},
		"false_verdicts[0]: comparisons 200 or tests -3 is negative": func(d *Document) {
			d.FalseVerdicts[0].Tests = -3
		},
		"false_verdicts[0]: false 201": func(d *Document) {
			d.FalseVerdicts[0].False = 201
		},
		"false_verdicts[0]: false 7 or beyond 201": func(d *Document) {
			d.FalseVerdicts[0].Beyond = 201
		},
		"experiments[0]: known: [NaN 10] is not finite": func(d *Document) {
			d.Experiments[0].Known[0] = nan
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
		require.ErrorContains(t, d.check(), want)
	}
}

// show calls what shows a calibration to people.
func show(d *Document) {
	d.Summary()
	for _, repeats := range []int{1, 10, 20, 1000} {
		d.MinEffect(repeats)
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
	MinEffectOf([]Found{{Document: d}}, 10, 0.01)
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
		if d.Encode(&text) == nil { // JSON has no NaN
			f.Add(text.Bytes())
		}
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
