package calibrate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

var update = flag.Bool("update", false, "rewrite the schema from the Go types")

const (
	schemaPath = "schema.json"
	schemaID   = "urn:transportbench:calibration:2"
)

func TestSchemaFile(t *testing.T) {
	reflector := invopop.Reflector{
		BaseSchemaID:              schemaID,
		AllowAdditionalProperties: true, // later minor versions add some
		Mapper: func(typ reflect.Type) *invopop.Schema {
			switch {
			case typ == reflect.TypeFor[set.Set](): // it has its own schema
				return &invopop.Schema{Type: "object"}
			case typ != reflect.TypeFor[time.Time]() && typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
				return &invopop.Schema{Type: "string"} // whatever its kind
			}
			return nil
		},
	}
	require.NoError(t, reflector.AddGoComments("transportbench/core/lab/calibrate", "."))
	schema := reflector.Reflect(new(Document))
	schema.ID = schemaID
	schema.Title = "transportbench calibration, version " + SchemaVersion
	text, err := json.MarshalIndent(schema, "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	if *update {
		require.NoError(t, os.WriteFile(schemaPath, text, 0o644))
	}
	committed, err := os.ReadFile(schemaPath)
	require.NoError(t, err)
	require.Equal(t, string(committed), string(text), "run go test ./core/lab/calibrate -run TestSchemaFile -update")
}

// validate checks a document against the schema.
func validate(t *testing.T, document []byte) {
	t.Helper()
	text, err := os.ReadFile(schemaPath)
	require.NoError(t, err)
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(schemaID, schema))
	compiled, err := c.Compile(schemaID)
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	require.NoError(t, err)
	require.NoError(t, compiled.Validate(instance))
}

// fileDocument returns a calibration of one experiment with two cells and two rounds.
func fileDocument() *Document {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s := set.New()
	s.CreatedAt = at
	s.Environments = []set.Environment{{Identity: map[string]string{"cpu": "some"}, Volatile: map[string]string{}}}
	for i := range 2 {
		s.Cells = append(s.Cells, set.Cell{
			Config: map[string]string{"transport": "calibration", "in_flight": "1"}, Status: set.Measured, StartedAt: at,
			Windows: []set.Window{{StartedAt: at, BounceBefore: 50, BounceAfter: 51}, {StartedAt: at, Launch: 1}},
			Samples: map[string][]float64{result.Throughput: {1000 + float64(i), 1001}},
		})
	}
	return &Document{
		SchemaVersion: SchemaVersion, Kind: Kind, ID: result.NewID(), StartedAt: at, TookS: 1.5, Alpha: 0.05,
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
	validate(t, text)
	require.Equal(t, 2, strings.Count(string(text), "\n{\"config\""), "one cell a line")

	again, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, d.normalized(), again)
	require.NoError(t, Write(path, again), "a calibration may be replaced")

	var empty bytes.Buffer
	d.Experiments = nil
	require.NoError(t, d.Encode(&empty))
	validate(t, empty.Bytes())
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
		"truncated":        {text[:len(text)/2], "unexpected end"},
		"behind the end":   {text + "{}", "after top-level value"},
		"twice":            {edit(`"kind": "calibration"`, `"kind": "calibration", "Kind": "run"`), "occurs twice"},
		"another kind":     {edit(`"kind": "calibration"`, `"kind": "run"`), `kind "run" is not "calibration"`},
		"newer":            {edit(`"2.0.0"`, `"3.0.0"`), "newer version"},
		"no version":       {edit(`"schema_version": "2.0.0",`, ``), "no schema_version"},
		"no ID":            {edit(`"id"`, `"nope"`), "id"},
		"no time":          {edit(`"started_at"`, `"nope"`), "started_at"},
		"negative time":    {edit(`"took_s": 1.5`, `"took_s": -1`), "took_s"},
		"alpha":            {edit(`"alpha": 0.05`, `"alpha": 1`), "alpha"},
		"no machine":       {edit(`"arch": "amd64"`, `"arch": ""`), "identity"},
		"huge number":      {edit(`[1000,`, `[1e999,`), "out of range"},
		"a name too many":  {edit(`"name":"delay"`, `"name":""`), "experiments[0]: name is missing"},
		"no set":           {edit(`"set":{`, `"other":{`), "experiments[0]: set is missing"},
		"known":            {edit(`"known":[0,10]`, `"known":[0]`), "known has 1 values for 2 cells"},
		"unlike rounds":    {edit(`,{"started_at":"2026-03-04T05:06:07Z","launch":1}`, ``), "windows"},
		"missing sample":   {edit(`[1000,1001]`, `[1000]`), "has 1 samples for 2 windows"},
		"no transport":     {edit(`"transport":"calibration"`, `"other":"calibration"`), "config has no transport"},
		"negative bounce":  {edit(`"bounce_before_ns":50`, `"bounce_before_ns":-50`), "negative bounce"},
		"file elsewhere":   {edit(`"samples"`, `"files":[{"name":"../x","bytes":1}],"samples"`), "outside the directory"},
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

func FuzzParse(f *testing.F) {
	var good bytes.Buffer
	require.NoError(f, fileDocument().Encode(&good))
	f.Add(good.Bytes())
	f.Add([]byte(`{"schema_version":"2.0.0","kind":"calibration"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse(data)
		if err != nil {
			return
		}
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
	require.True(t, strings.HasPrefix(path, "/somewhere/.local/state/transportbench/calibration/"), path)
}

func TestUnwritableCalibration(t *testing.T) {
	err := Write(filepath.Join("/dev/null", FileName), fileDocument())
	var io *result.IOError
	require.ErrorAs(t, err, &io)
	require.ErrorContains(t, err, "--out")
}
